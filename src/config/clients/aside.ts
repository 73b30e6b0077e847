/** Loads a configuration in a thread, so that requests are served meanwhile, whatever its files hold and however large they are. The thread ends with its one answer, or at its deadline. */
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Config } from '../config.ts'
import type { Environment } from '../environment.ts'
import { ConfigError, ofWholeFile, type ConfigProblem } from '../problems.ts'
import { fromPlainConfig } from './client-table.ts'
import type { Loaded } from './thread.ts'

/** The largest file that is read takes a tenth of it on a slow machine. */
const LOAD_DEADLINE_MS = 60_000

/** Heap for all that is outside the buffers. A build makes much that lives for one line alone: small steps keep the process small. */
const heap = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 8 }

/** Loads as loadConfig does; a file that exceeds the memory or the time of the thread is refused, too. */
export async function loadConfigAside(
  file: string,
  env: Environment,
  deadlineMs = LOAD_DEADLINE_MS,
): Promise<Config> {
  const answer = await load(file, env, deadlineMs).catch((cause: unknown) => ({
    problems: [tooMuch(cause)],
  }))
  if ('problems' in answer) throw new ConfigError(file, answer.problems)
  return fromPlainConfig(answer.plain, answer.buffer)
}

const tooMuch = (cause: unknown): ConfigProblem =>
  ofWholeFile(
    `could not be read beside the requests (${(cause as Error).message}); make it smaller, its clients may stand in files that clientFiles names`,
  )

/** Rejects where the thread ends without an answer, or gives none within deadlineMs. */
const load = (file: string, env: Environment, deadlineMs: number): Promise<Loaded> =>
  new Promise((resolve, reject) => {
    // The extension is that of the source or of the build.
    const program = new URL(`./thread${extname(import.meta.filename)}`, import.meta.url)
    const workerData = { file, env: { ...env } }
    const thread = new Worker(program, { workerData, resourceLimits: heap })
    const late = setTimeout(() => void thread.terminate(), deadlineMs)
    const fail = (cause?: unknown): void => {
      clearTimeout(late)
      const why = cause instanceof Error ? cause.message : `no answer within ${deadlineMs} ms`
      reject(new Error(`the thread that reads files has ended: ${why}`, { cause }))
    }
    thread.once('message', resolve)
    thread.once('error', fail)
    thread.once('exit', () => fail())
  })
