/** Checks whether a text with clients in it would be taken, as far as it can: the plans of a client file stand in the configuration that names it. */
import { readFileSync, statSync } from 'node:fs'
import { build } from '../config/clients/builder.ts'
import { isJsonLines } from '../config/clients/entries.ts'
import { readYaml } from '../config/document.ts'
import type { Environment } from '../config/environment.ts'
import { parseConfigText } from '../config/clients/load.ts'
import { parseConfig } from '../config/parse.ts'
import { ConfigError, formatPath } from '../config/problems.ts'
import { isGroup, isList, listAt, textAt, type Group, type Tree } from '../config/tree.ts'

/** In longer files with a client a line, only the line that changes is checked. */
const WHOLE_BYTES = 16 * 2 ** 20

/** Throws ConfigError with every problem. line: line of the one client that the text is; undefined: it is a whole file in YAML. */
export function checkClients(
  text: string,
  { file, env, line }: { file: string; env: Environment; line: number | undefined },
): void {
  const { tree = '', faults, locate } = readYaml(text, undefined)
  const isConfig = isGroup(tree) && Object.keys(tree).some((key) => key !== 'clients')
  if (line === undefined && isConfig) return void parseConfigText(text, { file, env })
  const clients = line !== undefined ? [tree] : isList(tree) ? tree : listAt(tree, 'clients')
  // Number of steps to a client in the text itself.
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

/** Checks clients under plans that go with any limits. */
function problemsOf(clients: readonly Tree[]) {
  const names = clients.map((client) => textAt(client, 'plan') ?? 'none')
  const plans = Object.fromEntries(names.map((name) => [name, { custom: 'true' }]))
  const { problems } = parseConfig(clients.length === 0 ? {} : { clients, plans })
  return problems.filter(
    ({ path, message }) =>
      path[0] === 'clients' && !(path.at(-1) === 'limits' && message.startsWith('is missing')),
  )
}

/** Checks files with a client a line only. Throws ConfigError with every problem. */
export function checkLines(file: { name: string; path: string }): void {
  const bytes = statSync(file.path).size
  if (bytes > WHOLE_BYTES || !isJsonLines(file.path)) return
  const plans = plansOf(readFileSync(file.path, 'utf8').split('\n'))
  const files = [{ ...file, bytes }]
  const { faults } = build({ own: [], files, plans, nowMs: 0 })
  if (faults.length > 0) throw new ConfigError(file.name, faults)
}

/** Derives plans from the first client of each: a custom plan is one whose clients have limits of their own. */
function plansOf(lines: readonly string[]): Group {
  const plans = new Map<string, Group>()
  for (const line of lines)
    try {
      const { plan, limits } = JSON.parse(line) as { plan?: unknown; limits?: unknown }
      if (typeof plan === 'string' && !plans.has(plan))
        plans.set(plan, limits === undefined ? {} : { custom: 'true' })
    } catch {
      // The loader reports lines that are not JSON.
    }
  return Object.fromEntries(plans)
}
