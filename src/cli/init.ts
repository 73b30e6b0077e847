/** `tollgate init`: writes a small configuration with one client, and shows its key and how to use it. */
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseConfigText } from '../config/clients/load.ts'
import { ConfigError } from '../config/problems.ts'
import { clientId, faultIn, keyId } from '../config/scalars.ts'
import { FAILED, OK, REFUSED, type Edge } from './edge.ts'
import { newKey } from './key-files/new-key.ts'
import { asLines } from './key-files/text-edit.ts'

interface InitOptions {
  /** Default: gateway.yaml. */
  readonly write?: string
  /** Origin of the service behind the gateway. */
  readonly upstream?: string
  readonly client?: string
}

const configText = (upstream: string, clients: readonly string[]): string => `\
# What is left out has a default: config/gateway.yaml of the project shows every key.
server:
  listen: 127.0.0.1:8080
upstream:
  urls: ['${upstream.replaceAll("'", "''")}']

# Requests of each client in a minute and a day (UTC).
plans:
  free: { perMinute: 60, perDay: 1000 }
  pro: { perMinute: 300, perDay: 10000 }

# A key is kept as its digest alone. More of them: tollgate keys new --client ID --plan PLAN
${clients.join('\n')}
`

/** Never overwrites a file. */
export const initCommand = (
  { env, print, complain }: Pick<Edge, 'env' | 'print' | 'complain'>,
  {
    write: file = 'gateway.yaml',
    upstream = 'http://127.0.0.1:3000',
    client = 'first',
  }: InitOptions,
): number => {
  // Key ids begin with it.
  const clientFault = faultIn(clientId, client) ?? faultIn(keyId, client)
  if (clientFault !== undefined) {
    complain(`tollgate: --client ${clientFault}`)
    return REFUSED
  }
  const { key, entry } = newKey(client)
  const text = configText(
    upstream,
    asLines({ clients: [{ id: client, plan: 'free', keys: [entry] }] }),
  )
  try {
    for (const warning of parseConfigText(text, { file, env }).warnings) complain(warning)
    writeFileSync(file, text, { flag: 'wx' })
  } catch (error) {
    if (error instanceof ConfigError) {
      for (const { message } of error.problems) complain(`tollgate: --upstream ${message}`)
      return REFUSED
    }
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') {
      complain(`tollgate: ${file} is there already; name another file with --write`)
      return REFUSED
    }
    complain(`tollgate: ${file} cannot be written (${code}); check its folder and permissions`)
    return FAILED
  }
  print(`# ${resolve(file)} is written. The key of client ${client}, shown this once:`)
  print(key)
  print('# Start the gateway, and with the service at its place call it:')
  print(`tollgate start --config ${file}`)
  print(`curl -i -H 'Authorization: Bearer ${key}' http://127.0.0.1:8080/v1/`)
  return OK
}
