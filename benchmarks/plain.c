/* Yardstick: plain EASY replay in C by the rules of semantics.md (backfill order = queue order, no threshold).
 * Sorted running array by expected end, queue in an array, heap of actual ends; scans the whole queue at each pass.
 * usage: cc -O3 plain.c -o plain; ./plain TRACE.swf REPETITIONS fcfs|spf|saf [starts.txt]
 * Reads plain SWF rows as they are; logs.py writes such files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <stdint.h>
typedef struct {int64_t r,p,e;int q;} J;
static J*J_;static int n;static int64_t m;
typedef struct{int64_t t;int id;}H;
static H*heap;static int hn;
static inline void hpush(int64_t t,int id){int i=hn++;while(i){int p=(i-1)>>1;if(heap[p].t<=t)break;heap[i]=heap[p];i=p;}heap[i].t=t;heap[i].id=id;}
static inline void hpop(void){H x=heap[--hn];int i=0;for(;;){int c=2*i+1;if(c>=hn)break;if(c+1<hn&&heap[c+1].t<heap[c].t)c++;if(heap[c].t>=x.t)break;heap[i]=heap[c];i=c;}heap[i]=x;}
static H*run;static int rn; /* sorted by projected end t (ascending) */
static inline void radd(int64_t t,int id){int i=rn++;while(i&&run[i-1].t>t){run[i]=run[i-1];i--;}run[i].t=t;run[i].id=id;}
static inline void rdel(int id,int64_t t){int lo=0,hi=rn;while(lo<hi){int k=(lo+hi)/2;if(run[k].t<t)lo=k+1;else hi=k;}while(run[lo].id!=id)lo++;memmove(run+lo,run+lo+1,(--rn-lo)*sizeof(H));}
static int64_t*start;static int*Q;static int qn;static double*key;
static int64_t passes,maxq,scanned;
static int pol;
static int cmp(const void*a,const void*b){int x=*(int*)a,y=*(int*)b;double d=key[x]-key[y];return d<0?-1:d>0?1:x-y;}
static void sim(void){
  int next=0;int64_t free_=m;hn=rn=qn=0;passes=maxq=scanned=0;
  while(next<n||hn){
    int64_t now; if(hn&&(next>=n||heap[0].t<=J_[next].r))now=heap[0].t;else now=J_[next].r;
    while(hn&&heap[0].t==now){int id=heap[0].id;hpop();free_+=J_[id].q;rdel(id,start[id]+J_[id].e);}
    while(next<n&&J_[next].r==now){
      if(pol){int i=qn++;while(i&&key[Q[i-1]]>key[next]){Q[i]=Q[i-1];i--;}Q[i]=next;}
      else Q[qn++]=next; next++;}
    if(qn>maxq)maxq=qn; passes++;
    int h=0; while(h<qn&&J_[Q[h]].q<=free_){int id=Q[h++];free_-=J_[id].q;start[id]=now;hpush(now+J_[id].p,id);radd(now+J_[id].e,id);}
    if(h){memmove(Q,Q+h,(qn-h)*sizeof(int));qn-=h;}
    if(qn>1&&free_>0){
      int64_t f=free_,need=J_[Q[0]].q,shadow=0,extra=0;int i;
      for(i=0;i<rn;i++){f+=J_[run[i].id].q;if(f>=need){shadow=run[i].t;while(i+1<rn&&run[i+1].t==shadow)f+=J_[run[++i].id].q;extra=f-need;break;}}
      int w=1;int k;
      for(k=1;k<qn;k++){int id=Q[k];J*j=J_+id;scanned++;
        if(j->q<=free_&&(now+j->e<=shadow||j->q<=extra)){
          if(now+j->e>shadow)extra-=j->q;
          free_-=j->q;start[id]=now;hpush(now+j->p,id);radd(now+j->e,id);
          if(!free_){k++;break;}
        } else Q[w++]=id;}
      if(w!=k){memmove(Q+w,Q+k,(qn-k)*sizeof(int));} qn-=(k-w);
    }
  }
}
int main(int c,char**v){FILE*f=fopen(v[1],"r");char l[65536];int cap=1024;J_=malloc(cap*sizeof(J));struct timespec a,b;
  clock_gettime(CLOCK_MONOTONIC,&a);
  while(fgets(l,sizeof l,f)){if(*l==';'){char*s=strstr(l,"MaxProcs:");if(s)m=atoll(s+9);continue;}
    long id,r,w,p,q,x,y,rq,e;if(sscanf(l,"%ld %ld %ld %ld %ld %ld %ld %ld %ld",&id,&r,&w,&p,&q,&x,&y,&rq,&e)<9)continue;
    if(n==cap)J_=realloc(J_,(cap*=2)*sizeof(J));J_[n++]=(J){r,p,e,q};}
  clock_gettime(CLOCK_MONOTONIC,&b);double tp=(b.tv_sec-a.tv_sec)+(b.tv_nsec-a.tv_nsec)*1e-9;
  heap=malloc(n*sizeof(H));run=malloc(n*sizeof(H));start=malloc(n*8);Q=malloc(n*sizeof(int));key=malloc(n*8);
  if(c>3){if(!strcmp(v[3],"saf"))pol=1;if(!strcmp(v[3],"spf"))pol=2;}
  for(int i=0;i<n;i++)key[i]=pol==1?(double)J_[i].q*J_[i].e:(double)J_[i].e;
  int reps=c>2?atoi(v[2]):1;
  clock_gettime(CLOCK_MONOTONIC,&a);for(int i=0;i<reps;i++)sim();clock_gettime(CLOCK_MONOTONIC,&b);
  double t=((b.tv_sec-a.tv_sec)+(b.tv_nsec-a.tv_nsec)*1e-9)/reps;
  double w=0,bs=0;int64_t mk=0;for(int i=0;i<n;i++){double wt=start[i]-J_[i].r;w+=wt;double d=J_[i].p<10?10:J_[i].p;double s=(wt+J_[i].p)/d;bs+=s<1?1:s;if(start[i]+J_[i].p>mk)mk=start[i]+J_[i].p;}
  printf("jobs %d procs %ld parse %.4fs sim %.6fs => %.3g jobs/s  passes %ld maxq %ld scanned %ld avgwait %.3f avgbsld10 %.4f makespan %ld\n",n,m,tp,t,n/t,passes,maxq,scanned,w/n,bs/n,mk);
  if(c>4){FILE*o=fopen(v[4],"w");for(int i=0;i<n;i++)fprintf(o,"%d %ld\n",i+1,start[i]);}
}
