/** The program of the threads that aside.ts starts. */
import { setPriority } from 'node:os'
import { parentPort, workerData, type Transferable } from 'node:worker_threads'
import { ConfigError } from '../problems.ts'
import type { Job, Jobs } from './aside.ts'
import { build } from './builder.ts'
import { loadConfig, readRevision } from './load.ts'
import { toPlainConfig } from './client-table.ts'
import { readSettingLocations } from './setting-locations.ts'

const NICE = 10

// Requests come first. On Linux this is the priority of the thread alone; elsewhere it would be that of the whole process.
if (process.platform === 'linux') setPriority(0, NICE)

const job = workerData as Job
if (job.name === 'build') {
  const built = build(job.request)
  answer(built, built.table === undefined ? [] : [built.table.buffer])
} else if (job.name === 'load') {
  const loaded = await load(job.request)
  answer(loaded, 'buffer' in loaded ? [loaded.buffer] : [])
} else answer(locate(job.request))

function answer(value: Jobs[keyof Jobs][1], sent: Transferable[] = []): void {
  parentPort?.postMessage(value, sent)
}

async function load({ file, env }: Jobs['load'][0]): Promise<Jobs['load'][1]> {
  try {
    const config = await loadConfig(file, env)
    return { plain: toPlainConfig(config), buffer: config.clients.parts.buffer }
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems }
    throw error
  }
}

function locate({ file, env, revision, asked }: Jobs['locate'][0]): Jobs['locate'][1] {
  try {
    const found = readSettingLocations(file, env, asked)
    // Files that were changed while they were read give no places.
    return readRevision(file, env) === revision ? found : 'otherFiles'
  } catch (error) {
    if (error instanceof ConfigError || (error as NodeJS.ErrnoException).code !== undefined)
      return 'otherFiles'
    throw error
  }
}
