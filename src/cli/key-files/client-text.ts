/** Edits a text with clients in it: adds, removes or ends a key, and keeps all else as written. */
import { hash, randomBytes } from 'node:crypto'
import { isJsonLines } from '../../config/clients/entries.ts'
import { isMap, isScalar, isSeq, parseYaml, yamlLines, type Node } from '../../config/document.ts'
import { dateMs } from '../../config/scalars.ts'
import { Fault } from '../terminal/fault.ts'
import { itemsOf, pairOf, TextEdit } from './text-edit.ts'

/** expires: as written in the file. */
export type KeyEntry = { readonly id: string; readonly sha256: string; readonly expires?: string }

/** Makes an API key: its text is shown once, files have its digest alone. expires: as written in the file; undefined: never. */
export function newKey(client: string, expires?: string) {
  const key = `tg_${randomBytes(32).toString('base64url')}`
  const id = `${client}-${randomBytes(3).toString('hex')}`
  const sha256 = hash('sha256', key)
  const entry: KeyEntry = { id, sha256, ...(expires !== undefined && { expires }) }
  return { key, client, entry }
}

/** plan: may be left out for a client that exists. limits: the client's own, for a custom plan, by their keys. */
interface ClientWish {
  readonly id: string
  readonly plan: string | undefined
  readonly limits: Readonly<Record<string, number | undefined>> | undefined
}

export class ClientText {
  readonly #file: string
  readonly #text: string
  /** JSON with a client a line; else the text is YAML, a configuration or a list of clients. */
  readonly #isLines: boolean

  constructor(file: string, text: string) {
    this.#file = file
    this.#text = text
    this.#isLines = isJsonLines(file)
  }

  withKey({ id, plan, limits }: ClientWish, key: KeyEntry): string {
    const found = this.#find(id, (client) => textOf(client, 'id') === id)
    if (found === undefined) {
      if (plan === undefined)
        throw this.#refused(`${id} is not in the file yet; say its plan with --plan`)
      return this.#withClient({ id, plan, ...(limits && { limits }), keys: [key] })
    }
    const has = textOf(found.client, 'plan')
    if (plan !== undefined && plan !== has)
      throw this.#refused(`${id} is on plan ${has}; leave --plan out, or change it in the file`)
    if (limits !== undefined)
      throw this.#refused(`${id} is in the file with its limits; change them there`)
    return this.#edited(found, (edit) => edit.addUnder(found.client, 'keys', key))
  }

  /** Adds a key for the client of the named key; the named key ends then, if not before. */
  rotated(keyId: string, entryFor: (client: string) => KeyEntry, ends: string): string {
    const found = this.#findKey(keyId)
    const endsAtMs = dateMs.safeParse(textOf(found.key, 'expires') ?? '').data ?? Infinity
    if (endsAtMs <= Date.now())
      throw this.#refused(`${keyId} has ended; make a new one with \`tollgate keys new\``)
    return this.#edited(found, (edit) => {
      if (endsAtMs > dateMs.parse(ends)) edit.set(found.key, 'expires', ends)
      edit.addUnder(found.client, 'keys', entryFor(textOf(found.client, 'id') ?? ''))
    })
  }

  without(keyId: string): string {
    const found = this.#findKey(keyId)
    return this.#edited(found, (edit) => edit.removeFrom(found.keys, found.index))
  }

  #findKey(id: string) {
    const found = this.#find(id, (client) => indexOfKey(client, id) >= 0)
    const keys = pairOf(found?.client, 'keys')
    const index = found === undefined ? -1 : indexOfKey(found.client, id)
    const key = itemsOf(keys?.value)[index]
    if (found === undefined || keys === undefined || !isMap(key))
      throw this.#refused(
        `has no key ${id}; see them all with \`tollgate keys list --config FILE\``,
      )
    return { ...found, keys, key, index }
  }

  /** part: the text that was parsed, all of it or one line, and where it begins. */
  #find(id: string, isIt: (client: Node) => boolean) {
    for (const [offset, part] of this.#isLines ? this.#linesWith(id) : [[0, this.#text] as const]) {
      const root = parseYaml(part)?.contents
      const clients = this.#isLines
        ? [root]
        : itemsOf(isSeq(root) ? root : pairOf(root, 'clients')?.value)
      const client = clients.find((one): one is Node => isMap(one) && isIt(one))
      if (client !== undefined) return { part, offset, client }
    }
    return undefined
  }

  *#linesWith(id: string): Generator<readonly [offset: number, line: string]> {
    for (let at = 0; (at = this.#text.indexOf(`"${id}"`, at)) >= 0;) {
      const offset = this.#text.lastIndexOf('\n', at) + 1
      const end = this.#text.indexOf('\n', at)
      const line = this.#text.slice(offset, end === -1 ? undefined : end).trimEnd()
      yield [offset, line]
      at = offset + line.length
    }
  }

  #withClient(entry: object): string {
    const text = this.#text
    const root = this.#isLines ? undefined : parseYaml(text)?.contents
    const whole = { part: text, offset: 0 }
    if (isSeq(root)) return this.#edited(whole, (edit) => edit.addTo(root, entry))
    if (isMap(root)) return this.#edited(whole, (edit) => edit.addUnder(root, 'clients', entry))
    const lineBreak = /\r?\n/.exec(text)?.[0] ?? '\n'
    const lines = this.#isLines ? [JSON.stringify(entry)] : yamlLines([entry])
    const before = text === '' || text.endsWith('\n') ? '' : lineBreak
    return text + before + lines.join(lineBreak) + lineBreak
  }

  #edited(
    { part, offset }: { readonly part: string; readonly offset: number },
    change: (edit: TextEdit) => void,
  ): string {
    const edit = new TextEdit(part)
    change(edit)
    return this.#text.slice(0, offset) + edit.result + this.#text.slice(offset + part.length)
  }

  #refused(fault: string): Fault {
    return new Fault('usage', `${this.#file}: ${fault}`)
  }
}

const textOf = (group: unknown, key: string): string | undefined => {
  const value = pairOf(group, key)?.value
  return isScalar(value) ? String(value.value) : undefined
}

const indexOfKey = (client: Node, id: string): number =>
  itemsOf(pairOf(client, 'keys')?.value).findIndex((key) => textOf(key, 'id') === id)
