/** Loads a configuration that a gateway may start with. */
import { loadConfigAside } from '../config/clients/aside.ts'
import { loadConfig } from '../config/clients/load.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { ConfigError } from '../config/problems.ts'
import { refuseDemoKeys } from './demo-keys.ts'

/**
 * Rejects with ConfigError with every problem, public demo keys on an open listener among them. isServing: the file is loaded in
 * a thread, as requests must not wait; else in this thread, which is sooner.
 */
export async function loadUsableConfig(
  file: string,
  env: Environment,
  { isServing = false } = {},
): Promise<Config> {
  const config = await (isServing ? loadConfigAside : loadConfig)(file, env)
  const complaint = refuseDemoKeys(config)
  if (complaint === undefined) return config
  throw new ConfigError(file, [{ line: 1, column: 1, path: 'server.listen', message: complaint }])
}
