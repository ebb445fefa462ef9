/* Yardstick: a careful EASY replay in C by the rules of semantics.md (backfill order = queue order, no threshold).
 *
 * What C does well without a tree: the queue and the running jobs are sorted arrays of small records; a pass stops when
 * no waiting job is narrow enough, and reserves only if one behind the head fits; a job that is submitted alone is
 * decided alone as long as no other could start. With binary search and memmove for the running jobs it is 11 to 28 %
 * slower; a separate array of widths makes it no faster.
 *
 * usage: cc -O3 plain.c -o plain; ./plain TRACE.swf REPETITIONS fcfs|spf|saf [starts.txt]
 * Reads plain SWF rows as they are; logs.py writes such files. Times are processor time.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { int64_t submit, run, expected, key; int32_t procs; } Job;
typedef struct { int64_t at; int32_t procs, job; } End; /* of a running job */
typedef struct { int64_t key, expected; int32_t procs, job; } Waiting;

static Job *jobs;
static int64_t *start_of;
static int n_jobs, size;

static End *ends, *releases; /* the running jobs by true and by expected end, the latest first */
static int n_running;
static Waiting *queue;       /* lowest key first, of equal keys the oldest */
static int n_waiting;
static int free_procs;
static int narrowest;        /* no waiting job needs fewer processors */

/* What the last pass has left for the next job submitted. Settled: no waiting job can start before a job ends. */
static bool settled, reserved; /* whether the two below are known */
static int64_t shadow;
static int spare;

static void enter(End *list, End end) {
    int place = n_running;
    for (; place > 0 && list[place - 1].at <= end.at; place--) list[place] = list[place - 1];
    list[place] = end;
}

static void start(int job, int64_t now) {
    const Job *j = jobs + job;
    start_of[job] = now;
    enter(ends, (End){now + j->run, j->procs, job});
    enter(releases, (End){now + j->expected, j->procs, job});
    n_running++;
    free_procs -= j->procs;
}

static void end_next(void) {
    End end = ends[--n_running];
    /* From the job that is expected to end next, each moves down by one, up to the one that has ended. */
    End later = releases[n_running];
    for (int place = n_running; later.job != end.job;) {
        End found = releases[--place];
        releases[place] = later;
        later = found;
    }
    free_procs += end.procs;
}

/* When the head, which does not fit, is expected to start, and how many processors are spare then. */
static void reserve(int need) {
    int place = n_running, free_then = free_procs;
    while (free_then < need) free_then += releases[--place].procs;
    shadow = releases[place].at;
    while (place > 0 && releases[place - 1].at == shadow) free_then += releases[--place].procs;
    spare = free_then - need;
    reserved = true;
}

/* Start a job behind the head if that does not delay the head; the job must fit. */
static bool backfill(const Waiting *w, int64_t now) {
    if (!reserved) reserve(queue[0].procs);
    if (now + w->expected > shadow) {
        if (w->procs > spare) return false;
        spare -= w->procs;
    }
    start(w->job, now);
    return true;
}

static void pass(int64_t now) {
    int heads = 0;
    while (heads < n_waiting && queue[heads].procs <= free_procs) start(queue[heads++].job, now);
    n_waiting -= heads;
    if (heads > 0) memmove(queue, queue + heads, n_waiting * sizeof *queue);
    if (n_waiting == 0) { narrowest = INT_MAX; return; }
    reserved = false;
    settled = true;
    if (free_procs < narrowest) return;
    int kept = 1, next = 1, least = queue[0].procs;
    for (; next < n_waiting && free_procs >= narrowest; next++) {
        if (queue[next].procs <= free_procs && backfill(queue + next, now)) continue;
        if (queue[next].procs < least) least = queue[next].procs;
        if (kept != next) queue[kept] = queue[next];
        kept++;
    }
    if (next == n_waiting) narrowest = least;
    if (kept != next) memmove(queue + kept, queue + next, (n_waiting - next) * sizeof *queue);
    n_waiting -= next - kept;
}

/* Queue a job; returns its place. */
static int wait(int job) {
    const Job *j = jobs + job;
    int low = 0, high = n_waiting;
    while (low < high) {
        int middle = (low + high) / 2;
        if (queue[middle].key <= j->key) low = middle + 1; else high = middle;
    }
    memmove(queue + low + 1, queue + low, (n_waiting - low) * sizeof *queue);
    queue[low] = (Waiting){j->key, j->expected, j->procs, job};
    n_waiting++;
    if (j->procs < narrowest) narrowest = j->procs;
    return low;
}

/* Decide on a job that is submitted alone, if that is possible; false if a pass must. */
static bool decided_alone(int job, int64_t now) {
    const Job *j = jobs + job;
    if (n_waiting == 0 && j->procs <= free_procs) { start(job, now); return true; }
    if (!settled || j->key < queue[0].key) return false;
    Waiting alone = {j->key, j->expected, j->procs, job};
    if (j->procs > free_procs || !backfill(&alone, now)) wait(job);
    return true;
}

static void simulate(void) {
    int next = 0;
    free_procs = size;
    n_running = n_waiting = 0;
    narrowest = INT_MAX;
    settled = false;
    while (next < n_jobs || n_running > 0) {
        int64_t now = next < n_jobs ? jobs[next].submit : INT64_MAX;
        if (n_running > 0 && ends[n_running - 1].at < now) now = ends[n_running - 1].at;
        while (n_running > 0 && ends[n_running - 1].at == now) {
            end_next();
            settled = false;
        }
        int first = next;
        while (next < n_jobs && jobs[next].submit == now) next++;
        if (next == first + 1 && decided_alone(first, now)) continue;
        for (int job = first; job < next; job++) wait(job);
        if (n_waiting > 0) pass(now);
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void read_jobs(const char *path, const char *policy) {
    FILE *file = fopen(path, "r");
    char line[65536];
    int capacity = 0;
    while (fgets(line, sizeof line, file)) {
        const char *found = strstr(line, "MaxProcs:");
        if (*line == ';') {
            if (found) size = atoi(found + 9);
            continue;
        }
        long submit, run, procs, expected;
        if (sscanf(line, "%*d %ld %*d %ld %ld %*d %*d %*d %ld", &submit, &run, &procs, &expected) < 4) continue;
        if (n_jobs == capacity) jobs = realloc(jobs, (capacity = 2 * capacity + 1024) * sizeof *jobs);
        int64_t key = !strcmp(policy, "fcfs") ? 0 : !strcmp(policy, "spf") ? expected : expected * procs;
        jobs[n_jobs++] = (Job){submit, run, expected, key, procs};
    }
    fclose(file);
}

int main(int count, char **given) {
    int repetitions = atoi(given[2]);
    double began = seconds();
    read_jobs(given[1], count > 3 ? given[3] : "fcfs");
    double read = seconds();
    start_of = malloc(n_jobs * sizeof *start_of);
    ends = malloc(n_jobs * sizeof *ends);
    releases = malloc(n_jobs * sizeof *releases);
    queue = malloc(n_jobs * sizeof *queue);
    double ready = seconds();
    for (int i = 0; i < repetitions; i++) simulate();
    double once = repetitions ? (seconds() - ready) / repetitions : 0;
    printf("jobs %d parse %.4fs sim %.9fs\n", n_jobs, read - began, once);
    if (count > 4) {
        FILE *out = fopen(given[4], "w");
        for (int job = 0; job < n_jobs; job++) fprintf(out, "%d %ld\n", job + 1, start_of[job]);
        fclose(out);
    }
    return 0;
}
