/** The program of the thread that aside.ts starts. */
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import type { Environment } from '../environment.ts'
import { ConfigError, type ConfigProblem } from '../problems.ts'
import { loadConfigHere } from './load.ts'
import { toPlainConfig, type PlainConfig } from './client-table.ts'

const NICE = 10

// Requests come first. On Linux this is the priority of the thread alone; elsewhere it would be that of the whole process.
if (process.platform === 'linux') setPriority(0, NICE)

export type Loaded =
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

const { file, env } = workerData as { file: string; env: Environment }
const loaded = load(file, env)
parentPort?.postMessage(loaded, 'buffer' in loaded ? [loaded.buffer] : [])
