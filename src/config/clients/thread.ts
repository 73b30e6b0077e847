/** The program of the threads that aside.ts starts: each carries out one job. */
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import type { Environment } from '../environment.ts'
import { ConfigError, type ConfigProblem } from '../problems.ts'
import { loadConfigHere, readRevision } from './load.ts'
import { toPlainConfig, type PlainConfig } from './client-table.ts'
import { readSettingLocations, type AskedPlace } from './setting-locations.ts'

const NICE = 10

// Requests come first. On Linux this is the priority of the thread alone; elsewhere it would be that of the whole process.
if (process.platform === 'linux') setPriority(0, NICE)

type Loaded =
  | { readonly plain: PlainConfig; readonly buffer: ArrayBuffer }
  | { readonly problems: readonly ConfigProblem[] }

/** file: path of the configuration. */
function load(file: string, env: Environment): Loaded {
  try {
    const config = loadConfigHere(file, env)
    return { plain: toPlainConfig(config), buffer: config.clients.parts.buffer }
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems }
    throw error
  }
}

/** Places of settings; otherFiles: the files are no longer those in force. revision: that in force. */
function locate(
  ...[file, env, revision, asked]: [string, Environment, string, readonly AskedPlace[]]
) {
  try {
    const found = readSettingLocations(file, env, asked)
    // Files that were changed while they were read give no places.
    return readRevision(file, env) === revision ? found : ('otherFiles' as const)
  } catch (error) {
    if (error instanceof ConfigError || (error as NodeJS.ErrnoException).code !== undefined)
      return 'otherFiles' as const
    throw error
  }
}

const jobs = { load, locate }
export type Jobs = typeof jobs

const { name, given } = workerData as { name: keyof Jobs; given: unknown[] }
const answer = (jobs[name] as (...given: unknown[]) => ReturnType<Jobs[keyof Jobs]>)(...given)
const isLoaded = typeof answer === 'object' && 'buffer' in answer
parentPort?.postMessage(answer, isLoaded ? [answer.buffer] : [])
