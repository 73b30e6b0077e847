/** The thread that load-aside.ts starts. */
import { parentPort, workerData } from 'node:worker_threads'
import { ConfigError } from '../problems.ts'
import type { LoadAnswer, LoadRequest } from './load-aside.ts'
import { loadConfig } from './load.ts'
import { clientTableOf, toPlainConfig } from './plain-config.ts'
import { standAside } from './thread.ts'

standAside()
const { file, env } = workerData as LoadRequest
const answer = await loadConfig(file, env).then(
  (config): LoadAnswer => ({
    plain: toPlainConfig(config),
    buffer: clientTableOf(config).parts.buffer,
  }),
  (error: unknown): LoadAnswer => {
    if (error instanceof ConfigError) return { problems: error.problems }
    throw error
  },
)
parentPort?.postMessage(answer, 'buffer' in answer ? [answer.buffer] : [])
