/** Whether a text with clients in it would be taken, as far as it can tell: the plans of a client file stand in the configuration that names it. */
import { readYaml } from '../config/document.ts'
import type { Environment } from '../config/environment.ts'
import { parseConfigText } from '../clients/load.ts'
import { parseConfig } from '../config/parse.ts'
import { ConfigError, formatPath } from '../config/problems.ts'
import { isGroup, isList, listAt, textAt, type Tree } from '../config/tree.ts'

/** Throws ConfigError with every problem. line: of the one client that the text is; undefined: it is a whole file in YAML. */
export function checkClients(
  text: string,
  { file, env, line }: { file: string; env: Environment; line: number | undefined },
): void {
  const { tree = '', faults, locate } = readYaml(text, undefined)
  const isConfig = isGroup(tree) && Object.keys(tree).some((key) => key !== 'clients')
  if (line === undefined && isConfig) return void parseConfigText(text, { file, env })
  const clients = line !== undefined ? [tree] : isList(tree) ? tree : listAt(tree, 'clients')
  // The steps to a client in the text itself.
  const above = line !== undefined ? 2 : isList(tree) ? 1 : 0
  const problems = problemsOf(clients).map(({ path, at, message }) => ({
    ...locate({ path: path.slice(above), at }),
    path: formatPath(path),
    message,
  }))
  const all = [...faults.map((fault) => ({ ...fault, path: formatPath(fault.path) })), ...problems]
  if (all.length > 0)
    throw new ConfigError(
      file,
      all.map((one) => ({ ...one, line: one.line + (line ?? 1) - 1 })),
    )
}

/** Under plans that any limits go with. */
function problemsOf(clients: readonly Tree[]) {
  const names = clients.map((client) => textAt(client, 'plan') ?? 'none')
  const plans = Object.fromEntries(names.map((name) => [name, { custom: 'true' }]))
  const { problems } = parseConfig(clients.length === 0 ? {} : { clients, plans })
  return problems.filter(
    ({ path, message }) =>
      path[0] === 'clients' && !(path.at(-1) === 'limits' && message.startsWith('is missing')),
  )
}
