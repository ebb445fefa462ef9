-- The site factor is the priority: highest first; a tie goes to the job that was submitted first.
-- Slurm keeps priorities in 32 bits: factors go from 1 to 2000000000.
--<step>
local STEP = $step  -- the difference of two keys that is one step of the factor
--</step>
--<tries>
-- The default partition, if that is where the job goes.
local function home_of(job_desc, part_list)
   for name, part in pairs(part_list or {}) do
      if part.flag_default == 1 and (job_desc.partition == nil or job_desc.partition == name) then return part end
   end
end

--</tries>

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
--<submission>
   local r = os.time() - $origin
--</submission>
   local place = $place
--<sections>
   place = math.max(0, math.min($middle, place))
--</sections>
--<small>
   if p <= $divider then place = place + $middle end
--</small>
--<tries>
   place = math.floor(place)
   if job_desc.partition == "first-try" then job_desc.partition = nil end
   local home = home_of(job_desc, part_list)
   if home then
      job_desc.admin_comment = string.format("batfill %d %d %d %s", os.time(), p, place, home.name)
      local widest = math.max(1, math.floor(home.total_cpus * $width + 1e-9))
      if job_desc.script and job_desc.requeue ~= 0 and q <= widest then
         place = place + $middle
         job_desc.partition = "first-try"
         job_desc.time_limit = math.min(p / 60, $minutes)
      end
   end
--</tries>
   job_desc.site_factor = math.floor(math.max(1, math.min(2000000000, place)))
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end
