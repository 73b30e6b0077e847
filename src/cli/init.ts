/** `tollgate init`: writes a small configuration with one client, and shows its key and how to use it. */
import { writeFileSync } from 'node:fs'
import { basename, dirname, extname, relative, resolve } from 'node:path'
import { parseConfigText } from '../config/clients/load.ts'
import { yamlLines } from '../config/document.ts'
import { ConfigError } from '../config/problems.ts'
import type { Edge, Texts } from './edge.ts'
import { newKey } from './key-files/client-text.ts'
import { checkClient } from './keys.ts'
import { Fault } from './terminal/fault.ts'

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

const configText = (file: string, upstream: string, clients: readonly string[]): string => `\
# What is left out has a default: config/gateway.yaml of the project shows every key.
server:
  listen: 127.0.0.1:8080
upstream:
  urls: [${quoted(upstream)}]
# Where counts and bans are kept over a restart: each gateway needs a file of its own.
store:
  file: ${quoted(`data/${basename(file, extname(file))}.db`)}

# Requests of each client in a minute and a day (UTC).
plans:
  free: { perMinute: 60, perDay: 1000 }
  pro: { perMinute: 300, perDay: 10000 }

# A key is kept as its digest alone. More of them: tollgate keys new --client ID --plan PLAN
${clients.join('\n')}
`

/** Never overwrites a file. */
export const initCommand = (
  { env, entry, print, complain }: Pick<Edge, 'env' | 'entry' | 'print' | 'complain'>,
  {
    write: file = 'gateway.yaml',
    upstream = 'http://127.0.0.1:3000',
    client = 'first',
  }: Texts<'write' | 'upstream' | 'client'>,
): void => {
  checkClient(client)
  const { key, entry: keyEntry } = newKey(client)
  const clients = yamlLines({ clients: [{ id: client, plan: 'free', keys: [keyEntry] }] })
  const text = configText(file, upstream, clients)
  try {
    for (const warning of parseConfigText(text, { file, env }).warnings) complain(warning)
    writeFileSync(file, text, { flag: 'wx' })
  } catch (error) {
    if (error instanceof ConfigError)
      throw new Fault('usage', `--upstream ${error.problems[0]?.message}`)
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST')
      throw new Fault('usage', `${file} is there already; name another file with --write`)
    const fault = `${file} cannot be written (${code}); check its folder and permissions`
    throw new Fault('failed', fault, { cause: error })
  }
  print(`# ${resolve(file)} is written. The key of client ${client}, shown this once:`)
  print(key)
  print('# Start the gateway, and with the service at its place call it:')
  print(startCommand(file, { env, entry }))
  print(`curl -i -H 'Authorization: Bearer ${key}' http://127.0.0.1:8080/v1/`)
}

/** Where the image of the Dockerfile has the program. */
const IN_IMAGE = '/app/dist/main.js'

/** Starts the gateway as this command was started, as far as that can be told. */
function startCommand(file: string, { env, entry }: Pick<Edge, 'env' | 'entry'>): string {
  const script = env['npm_lifecycle_event']
  if (entry === IN_IMAGE) {
    const path = resolve(file)
    return `docker run --network host -v "$PWD:${dirname(path)}" tollgate start --config ${path}`
  }
  const installed = entry.includes('node_modules') ? 'tollgate' : `node ${relative('.', entry)}`
  const npm = script === 'npx' ? 'npx tollgate' : script && `npm run ${script} --`
  return `${npm ?? installed} start --config ${file}`
}
