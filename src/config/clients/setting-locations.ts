/** Finds where the settings of a configuration stand: its files are read once more, as this is seldom asked. */
import { basename } from 'node:path'
import type { Environment } from '../environment.ts'
import { readYaml, type Reading } from '../document.ts'
import { readConfigText } from '../files.ts'
import type { Path } from '../problems.ts'
import { isGroup, listAt, textAt, valueAt } from '../tree.ts'
import { ownClients, type ClientSource, type Entry } from './entries.ts'
import { findClientFiles } from './files.ts'

/** A configuration or a client, as written in a file. */
interface Written {
  /** Name of the file in the answer. */
  readonly name: string
  readonly reading: Reading
}

/** A setting of the configuration, a key of a client, or the client's own limits. */
export type AskedPlace =
  | { readonly path: Path }
  | { readonly clientId: string; readonly keyId: string }
  | { readonly clientId: string }

/** FILE:LINE of each, relative to the folder of the configuration; null: it is not written there. */
export type PlacesFound = readonly (string | null)[]

/** file: path of the configuration. Throws ConfigError where it cannot be read. */
export function readSettingLocations(
  file: string,
  env: Environment,
  asked: readonly AskedPlace[],
): PlacesFound {
  const own: Written = { name: basename(file), reading: readYaml(readConfigText(file), env) }
  const { tree } = own.reading
  const placeIn = ({ name, reading }: Written, path: Path): string | null =>
    valueAt(reading.tree, ...path) === undefined
      ? null
      : `${name}:${reading.locate({ path, at: 'key' }).line}`
  const files = isGroup(tree) ? findClientFiles(tree, file).files : []
  const sources = [{ ...ownClients(own.reading), relative: own.name }, ...files]
  const find = (id: string): Written | undefined => {
    for (const { relative: name, read } of sources) {
      const reading = findIn(read, id)
      if (reading !== undefined) return { name, reading }
    }
    return undefined
  }
  const found = new Map<string, Written | undefined>()
  return asked.map((one) => {
    if ('path' in one) return placeIn(own, one.path)
    const { clientId } = one
    if (!found.has(clientId)) found.set(clientId, find(clientId))
    const client = found.get(clientId)
    if (client === undefined) return null
    if (!('keyId' in one)) return placeIn(client, ['limits'])
    const keys = listAt(client.reading.tree, 'keys')
    const at = keys.findIndex((key) => textAt(key, 'id') === one.keyId)
    return placeIn(client, ['keys', at])
  })
}

/** The client with that id. */
function findIn(read: ClientSource['read'], id: string): Reading | undefined {
  let found: Reading | undefined
  const entry = ({ span, plain, parse }: Entry): void => {
    // Only few of a million lines are parsed. Bytes with escapes may contain any id.
    const bytes = span?.bytes.subarray(span.start, span.end)
    if (bytes && !bytes.includes(id) && !bytes.includes('\\')) return
    const given = plain() as { readonly id?: unknown } | null | undefined
    if (typeof given?.id === 'string' && given.id !== id) return
    const reading = parse()
    if (textAt(reading?.tree, 'id') === id) found = reading
  }
  read({ entry, fault: () => undefined })
  return found
}
