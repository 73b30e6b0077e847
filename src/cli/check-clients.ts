/** Checks whether a file with clients in it would be taken, as far as it can: the plans of a client file stand in the configuration that names it. */
import { build } from '../config/clients/builder.ts'
import {
  isJsonLines,
  readClients,
  type ClientSource,
  type EntryReader,
} from '../config/clients/entries.ts'
import { parseConfigText } from '../config/clients/load.ts'
import { readYaml } from '../config/document.ts'
import type { Environment } from '../config/environment.ts'
import { ConfigError } from '../config/problems.ts'
import { has, isGroup, textAt, type Group, type Tree } from '../config/tree.ts'

/** Throws ConfigError with every problem. path: where the text stands; name: its file in messages. */
export function checkClients(
  text: string,
  { name, path, env }: { readonly name: string; readonly path: string; readonly env: Environment },
): void {
  const tree = isJsonLines(name) ? undefined : readYaml(text, undefined).tree
  const isConfig = isGroup(tree) && Object.keys(tree).some((key) => key !== 'clients')
  if (isConfig) return void parseConfigText(text, { file: name, env })
  const read: ClientSource['read'] = (reader) => readClients(path, reader)
  const sources = [{ name, bytes: Buffer.byteLength(text), read }]
  const { faults } = build({ sources, plans: plansOf(read), nowMs: 0 })
  if (faults.length > 0) throw new ConfigError(name, faults)
}

/** Derives plans from the first client of each: a custom plan is one whose clients have limits of their own. */
function plansOf(read: ClientSource['read']): Group {
  const plans = new Map<string, Group>()
  const entry: EntryReader['entry'] = ({ plain, parse }) => {
    const client = (plain() as Tree | undefined) ?? parse()?.tree
    const plan = textAt(client, 'plan')
    if (plan !== undefined && !plans.has(plan))
      plans.set(plan, has(client, 'limits') ? { custom: 'true' } : {})
  }
  read({ entry, fault: () => undefined })
  return Object.fromEntries(plans)
}
