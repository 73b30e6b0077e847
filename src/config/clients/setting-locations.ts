/** Finds where the settings of a configuration stand: its files are read once more, as this is seldom asked. */
import { basename } from 'node:path'
import type { Environment } from '../environment.ts'
import { readYaml } from '../document.ts'
import { readConfigText } from '../load.ts'
import type { Path } from '../problems.ts'
import { isGroup, listAt, textAt, valueAt, type Tree } from '../tree.ts'
import { readClients } from './entries.ts'
import { findClientFiles } from './files.ts'

/** A client as written. */
interface Written {
  /** Name of the file in the answer. */
  readonly name: string
  readonly tree: Tree | undefined
  readonly path: Path
  lineOf(path: Path): number
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
  const { tree, locate } = readYaml(readConfigText(file), env)
  const own = {
    name: basename(file),
    tree,
    lineOf: (path: Path) => locate({ path, at: 'key' }).line,
  }
  const placeIn = ({ name, tree, lineOf }: Omit<Written, 'path'>, path: Path): string | null =>
    valueAt(tree, ...path) === undefined ? null : `${name}:${lineOf(path)}`
  const found = new Map<string, Written | undefined>()
  const clientAt = (id: string): Written | undefined => {
    if (!found.has(id)) found.set(id, findIn(listAt(tree, 'clients'), id) ?? inFiles(id))
    return found.get(id)
  }
  const findIn = (clients: readonly Tree[], id: string): Written | undefined => {
    const at = clients.findIndex((client) => textAt(client, 'id') === id)
    return at === -1 ? undefined : { ...own, path: ['clients', at] }
  }
  const inFiles = (id: string): Written | undefined => {
    for (const { relative, path } of isGroup(tree) ? findClientFiles(tree, file).files : []) {
      const written = readIn(path, relative, id)
      if (written !== undefined) return written
    }
    return undefined
  }
  return asked.map((one) => {
    if ('path' in one) return placeIn(own, one.path)
    const client = clientAt(one.clientId)
    if (client === undefined) return null
    if (!('keyId' in one)) return placeIn(client, [...client.path, 'limits'])
    const keys = listAt(client.tree, ...client.path, 'keys')
    const at = keys.findIndex((key) => textAt(key, 'id') === one.keyId)
    return placeIn(client, [...client.path, 'keys', at])
  })
}

/** Whether the bytes may contain the id: only few of a million lines are parsed. Bytes with escapes may contain any id. */
function mayName(bytes: Buffer, id: string): boolean {
  if (bytes.includes('\\')) return true
  for (let at = bytes.indexOf(id); at !== -1; at = bytes.indexOf(id, at + 1))
    if (!isOfWord(bytes[at - 1]) && !isOfWord(bytes[at + Buffer.byteLength(id)])) return true
  return false
}

const isOfWord = (byte = 0): boolean => /[\w-]/.test(String.fromCharCode(byte))

function readIn(file: string, name: string, id: string): Written | undefined {
  let written: Written | undefined
  const take = (one: Written | undefined): void => void (written = one)
  readClients(file, {
    plain: (bytes, { start, end }) => !mayName(bytes.subarray(start, end), id),
    exact: ({ reading: { tree, locate }, path, line }) => {
      if (textAt(tree, ...path, 'id') !== id) return
      const lineOf = (inner: Path) => locate({ path: inner, at: 'key' }).line + line - 1
      take({ name, tree, path, lineOf })
    },
    fault: () => undefined,
    restart: () => take(undefined),
  })
  return written
}
