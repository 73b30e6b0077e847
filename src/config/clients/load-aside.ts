/** Loads a configuration in a thread, so that requests are served meanwhile, whatever the file holds and however large it is. */
import type { Config } from '../config.ts'
import type { Environment } from '../environment.ts'
import { ConfigError, type ConfigProblem } from '../problems.ts'
import { fromPlainConfig, type PlainConfig } from './plain-config.ts'
import { askThread } from './thread.ts'

export interface LoadRequest {
  readonly file: string
  readonly env: Environment
}

export type LoadAnswer =
  | { readonly plain: PlainConfig; readonly buffer: ArrayBuffer }
  | { readonly problems: readonly ConfigProblem[] }

/** The largest file that is read takes a tenth of it on a slow machine. */
const DEADLINE_MS = 60_000

/** Loads as loadConfig does; a file that exceeds the memory or the time of the thread is refused, too. */
export async function loadConfigAside(file: string, env: Environment): Promise<Config> {
  const request: LoadRequest = { file, env: { ...env } }
  const answer = await askThread<LoadAnswer>('load-thread', request, DEADLINE_MS).catch(
    (cause: unknown): LoadAnswer => ({ problems: [tooMuch(cause)] }),
  )
  if ('problems' in answer) throw new ConfigError(file, answer.problems)
  return fromPlainConfig(answer.plain, answer.buffer)
}

const tooMuch = (cause: unknown): ConfigProblem => ({
  line: 1,
  column: 1,
  path: '(file)',
  message: `could not be read beside the requests (${(cause as Error).message}); make it smaller, its clients may stand in files that clientFiles names`,
})
