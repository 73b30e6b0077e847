/** Where settings stand in the files that a configuration was read from. */
import { basename } from 'node:path'
import type { Config } from './config.ts'
import type { Reading } from './document.ts'
import { formatPath, type Path } from './problems.ts'
import { isGroup, isList, type Tree } from './tree.ts'

/** A setting of the configuration, or a client with its keys and limits. */
export type AskedPlace = { readonly path: Path } | { readonly clientId: string }

export interface Locations {
  /** The files by their number in the table of clients, relative to the folder of the configuration, which is the first. */
  readonly files: readonly string[]
  /** Lines of what the configuration itself writes, by path; of its clients, where each begins. */
  readonly lines: ReadonlyMap<string, number>
}

/** file: path of the configuration; clientFiles: as clientFiles writes their paths. */
export function locationsIn(
  { tree, locate }: Reading,
  file: string,
  clientFiles: readonly string[],
): Locations {
  const lines = new Map<string, number>()
  const note = (value: Tree, path: Path): void => {
    lines.set(formatPath(path), locate({ path, at: 'key' }).line)
    const isClient = path.length === 2 && path[0] === 'clients'
    if (isList(value)) for (const [at, item] of value.entries()) note(item, [...path, at])
    else if (isGroup(value) && !isClient)
      for (const [key, inner] of Object.entries(value)) note(inner, [...path, key])
  }
  if (tree !== undefined) note(tree, [])
  return { files: [basename(file), ...clientFiles], lines }
}

/** FILE:LINE; null: it is not written there. */
export function locationOf(
  { locations: { files, lines }, clients }: Pick<Config, 'locations' | 'clients'>,
  asked: AskedPlace,
): string | null {
  const client = 'clientId' in asked ? clients.placeOf(asked.clientId) : undefined
  if (client !== undefined && client.source > 0) return `${files[client.source]}:${client.line}`
  const path = 'path' in asked ? asked.path : client && ['clients', client.line]
  const line = path && lines.get(formatPath(path))
  return line === undefined ? null : `${files[0]}:${line}`
}
