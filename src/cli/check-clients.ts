/** Checks whether a text with clients in it would be taken, as far as it can: the plans of a client file stand in the configuration that names it. */
import { statSync } from 'node:fs'
import { build } from '../config/clients/builder.ts'
import {
  isJsonLines,
  readClients,
  readingAt,
  readJson,
  readTree,
  type ClientSource,
  type EntryReader,
} from '../config/clients/entries.ts'
import { readYaml } from '../config/document.ts'
import type { Environment } from '../config/environment.ts'
import { parseConfigText } from '../config/clients/load.ts'
import { ConfigError } from '../config/problems.ts'
import { has, isGroup, textAt, type Group, type Tree } from '../config/tree.ts'

/** In longer files with a client a line, only the line that changes is checked. */
const WHOLE_BYTES = 16 * 2 ** 20

/** Throws ConfigError with every problem. line: line of the one client that the text is; undefined: it is a whole file in YAML. */
export function checkClients(
  text: string,
  { file, env, line }: { file: string; env: Environment; line: number | undefined },
): void {
  const reading = line === undefined ? readYaml(text, undefined) : readJson(text)
  const { tree } = reading
  const isConfig = isGroup(tree) && Object.keys(tree).some((key) => key !== 'clients')
  if (line === undefined && isConfig) return void parseConfigText(text, { file, env })
  checkSource(file, text.length, (reader) => {
    if (line === undefined) readTree(reading, reader)
    else {
      const parse = () => readingAt(reading, [], line)
      reader.entry({ line, index: 0, span: undefined, plain: () => undefined, parse })
    }
    return ''
  })
}

/** Checks files with a client a line only. Throws ConfigError with every problem. */
export function checkLines({ name, path }: { name: string; path: string }): void {
  const bytes = statSync(path).size
  if (bytes > WHOLE_BYTES || !isJsonLines(path)) return
  checkSource(name, bytes, (reader) => readClients(path, reader))
}

function checkSource(name: string, bytes: number, read: ClientSource['read']): void {
  const plans = plansOf(read)
  const { faults } = build({ sources: [{ name, bytes, read }], plans, nowMs: 0 })
  if (faults.length > 0) throw new ConfigError(name, faults)
}

/** Derives plans from the first client of each: a custom plan is one whose clients have limits of their own. */
function plansOf(read: (reader: EntryReader) => void): Group {
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
