-- First tries: new narrow jobs go to the partition first-try, and slurm_tries.py decides on them there.
-- The numbers are those of `--preset first-tries`; TRY_MIN and AGE_S stand in slurm_tries.py, too.
local TRY_MIN = 2  -- how long a try is, in whole minutes
local WIDTH = 0.125  -- of the default partition's CPUs: wider jobs get no try
-- Aged order: the key is (AGE_S + wait) / (request ^ ALPHA * CPUs ^ BETA).
local AGE_S, ALPHA, BETA = 20000, 0.1, 0

-- The site factor is the priority: highest first; a tie goes to the job that was submitted first.
-- Slurm keeps priorities in 32 bits: factors go from 1 to 2000000000.
-- The default partition, if that is where the job goes.
local function home_of(job_desc, part_list)
   for name, part in pairs(part_list or {}) do
      if part.flag_default == 1 and (job_desc.partition == nil or job_desc.partition == name) then return part end
   end
end

local function known(number, unknown)
   if number == nil or number >= unknown then return nil end
   return number
end

-- Minutes: the job's limit, else its partition's default, else the partition's maximum, else a year.
local function limit_min(job_desc, part_list)
   local limit = known(job_desc.time_limit, slurm.NO_VAL)
   if limit then return limit end
   local wanted = job_desc.partition and string.match(job_desc.partition, "[^,]+")
   for name, part in pairs(part_list or {}) do
      if name == wanted or (not wanted and part.flag_default == 1) then
         limit = known(part.default_time, slurm.NO_VAL) or known(part.max_time, slurm.NO_VAL)
      end
   end
   return limit or 525600
end

-- CPUs that the job requests.
local function cpus(job_desc)
   local nodes = known(job_desc.min_nodes, slurm.NO_VAL) or 1
   local per_node = known(job_desc.ntasks_per_node, slurm.NO_VAL16) or 0
   local tasks = known(job_desc.num_tasks, slurm.NO_VAL) or nodes * math.max(per_node, 1)
   local per_task = known(job_desc.cpus_per_task, slurm.NO_VAL16) or 1
   return math.max(known(job_desc.min_cpus, slurm.NO_VAL) or 1, tasks * per_task)
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   local p = limit_min(job_desc, part_list) * 60.0
   local q = cpus(job_desc)
   local place = (1000000000 + 28000000 * (math.log(AGE_S) - (ALPHA * math.log(p) + BETA * math.log(q)))) / 2
   place = math.floor(math.max(0, math.min(1000000000, place)))
   if job_desc.partition == "first-try" then job_desc.partition = nil end
   local home = home_of(job_desc, part_list)
   if home then
      job_desc.admin_comment = string.format("batfill %d %d %d %s", os.time(), p, place, home.name)
      local widest = math.max(1, math.floor(home.total_cpus * WIDTH + 1e-9))
      if job_desc.script and job_desc.requeue ~= 0 and q <= widest then
         place = place + 1000000000
         job_desc.partition = "first-try"
         job_desc.time_limit = math.min(p / 60, TRY_MIN)
      end
   end
   job_desc.site_factor = math.floor(math.max(1, math.min(2000000000, place)))
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end
