/** Checks whether a file with clients in it would be taken, as far as it can: the plans of a client file stand in the configuration that names it. */
import { build } from '../config/clients/builder.ts'
import { isJsonLines } from '../config/clients/entries.ts'
import { parseConfigText } from '../config/clients/load.ts'
import { readYaml } from '../config/document.ts'
import type { Environment } from '../config/environment.ts'
import { ConfigError } from '../config/problems.ts'
import { isGroup, isList, listAt, textAt, valueAt, type Tree } from '../config/tree.ts'

/** Throws ConfigError with every problem. path: where the text stands; name: its file in messages. */
export function checkClients(
  text: string,
  { name, path, env }: { readonly name: string; readonly path: string; readonly env: Environment },
): void {
  const { tree = '' } = isJsonLines(name)
    ? { tree: clientsOfLines(text) }
    : readYaml(text, undefined)
  const isConfig = isGroup(tree) && Object.keys(tree).some((key) => key !== 'clients')
  if (isConfig) return void parseConfigText(text, { file: name, env })
  const plans = plansOf(isList(tree) ? tree : listAt(tree, 'clients'))
  const files = [{ name, path, bytes: Buffer.byteLength(text) }]
  const { faults } = build({ own: [], files, plans, nowMs: 0 })
  if (faults.length > 0) throw new ConfigError(name, faults)
}

const clientsOfLines = (text: string): Tree[] =>
  text.split('\n').flatMap((line) => {
    try {
      return [(JSON.parse(line) as Tree | null) ?? '']
    } catch {
      // The loader reports lines that are not JSON.
      return []
    }
  })

/** Derives plans from the first client of each: a custom plan is one whose clients have limits of their own. */
function plansOf(clients: readonly Tree[]) {
  const plans = new Map<string, { custom?: string }>()
  for (const client of clients) {
    const plan = textAt(client, 'plan')
    if (plan !== undefined && !plans.has(plan))
      plans.set(plan, valueAt(client, 'limits') === undefined ? {} : { custom: 'true' })
  }
  return Object.fromEntries(plans)
}
