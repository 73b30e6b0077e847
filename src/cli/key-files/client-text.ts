/** Edits a text with clients in it: adds, removes or ends a key, and keeps all else as written. */
import { hash, randomBytes } from 'node:crypto'
import { readSpans, type Span } from '../../config/document.ts'
import { dateMs } from '../../config/scalars.ts'
import { asLines, pairOf, TextEdit, type Value } from './text-edit.ts'

/** expires: as written in the file. */
export type KeyEntry = { readonly id: string; readonly sha256: string; readonly expires?: string }

/** Makes an API key: its text is shown once, files have its digest alone. expires: as written in the file; undefined: never. */
export function newKey(client: string, expires?: string): { key: string; entry: KeyEntry } {
  const key = `tg_${randomBytes(32).toString('base64url')}`
  const id = `${client}-${randomBytes(3).toString('hex')}`
  const sha256 = hash('sha256', key)
  return { key, entry: { id, sha256, ...(expires !== undefined && { expires }) } }
}

/** plan: may be left out for a client that exists. limits: the client's own, for a custom plan. */
export interface ClientWish {
  readonly id: string
  readonly plan: string | undefined
  readonly limits: { readonly perMinute: number; readonly perDay: number } | undefined
}

/** The request does not go with what the file says: `fault; remedy`. */
export class KeysRefused extends Error {}

/** The part of a text that is parsed: all of it, or one line. */
interface Part {
  readonly text: string
  readonly offset: number
}

export class ClientText {
  readonly #text: string
  readonly #isLines: boolean
  /** The part changed last. */
  changed: Part

  /** isLines: JSON with a client a line; else YAML, a configuration or a list of clients. */
  constructor(text: string, isLines: boolean) {
    this.#text = text
    this.#isLines = isLines
    this.changed = { text, offset: 0 }
  }

  withKey({ id, plan, limits }: ClientWish, key: KeyEntry): string {
    const found = this.#find(id, (client) => textOf(client, 'id') === id)
    if (found === undefined) {
      if (plan === undefined)
        throw new KeysRefused(`${id} is not in the file yet; say its plan with --plan`)
      return this.#withClient({ id, plan, ...(limits && { limits: { ...limits } }), keys: [key] })
    }
    const has = textOf(found.client, 'plan')
    if (plan !== undefined && plan !== has)
      throw new KeysRefused(`${id} is on plan ${has}; leave --plan out, or change it in the file`)
    if (limits !== undefined)
      throw new KeysRefused(`${id} is in the file with its limits; change them there`)
    return this.#edited(found.part, (edit) => edit.addUnder(found.client, 'keys', key))
  }

  /** Adds a key for the client of the named key; the named key ends then, if not before. */
  rotated(keyId: string, entryFor: (client: string) => KeyEntry, ends: string): string {
    const { part, client, key } = this.#findKey(keyId)
    const endsAtMs = dateMs.safeParse(textOf(key, 'expires') ?? '').data ?? Infinity
    if (endsAtMs <= Date.now())
      throw new KeysRefused(`${keyId} has ended; make a new one with \`tollgate keys new\``)
    return this.#edited(part, (edit) => {
      if (endsAtMs > dateMs.parse(ends)) edit.set(key, 'expires', ends)
      edit.addUnder(client, 'keys', entryFor(textOf(client, 'id') ?? ''))
    })
  }

  without(keyId: string): string {
    const { part, keys, index } = this.#findKey(keyId)
    return this.#edited(part, (edit) => edit.removeFrom(keys, index))
  }

  #findKey(id: string) {
    const found = this.#find(id, (client) => indexOfKey(client, id) >= 0)
    const keys = pairOf(found?.client, 'keys')
    const index = found === undefined ? -1 : indexOfKey(found.client, id)
    const key = keys?.value.items?.[index]
    if (found === undefined || keys === undefined || key === undefined)
      throw new KeysRefused(
        `has no key ${id}; see them all with \`tollgate keys list --config FILE\``,
      )
    return { ...found, keys, key, index }
  }

  #find(id: string, isIt: (client: Span) => boolean) {
    for (const part of this.#isLines ? this.#linesWith(id) : [this.changed]) {
      const client = this.#clientsIn(part.text).find(isIt)
      if (client !== undefined) return { part, client }
    }
    return undefined
  }

  *#linesWith(id: string): Generator<Part> {
    for (let at = 0; (at = this.#text.indexOf(`"${id}"`, at)) >= 0;) {
      const offset = this.#text.lastIndexOf('\n', at) + 1
      const end = this.#text.indexOf('\n', at)
      const text = this.#text.slice(offset, end === -1 ? undefined : end).trimEnd()
      yield { text, offset }
      at = offset + text.length
    }
  }

  #clientsIn(part: string): readonly Span[] {
    const root = readSpans(part)
    return this.#isLines ? [root] : (root.items ?? pairOf(root, 'clients')?.value.items ?? [])
  }

  #withClient(entry: { readonly [key: string]: Value }): string {
    const root = this.#isLines ? undefined : readSpans(this.#text)
    if (root?.items !== undefined)
      return this.#edited(this.changed, (edit) => edit.addTo(root, entry))
    if (root?.pairs !== undefined)
      return this.#edited(this.changed, (edit) => edit.addUnder(root, 'clients', entry))
    const lineBreak = /\r?\n/.exec(this.#text)?.[0] ?? '\n'
    const lines = this.#isLines ? [JSON.stringify(entry)] : asLines([entry])
    const before = this.#text === '' || this.#text.endsWith('\n') ? '' : lineBreak
    return this.#put(before + lines.join(lineBreak) + lineBreak, this.#text.length, 0)
  }

  #edited({ text, offset }: Part, change: (edit: TextEdit) => void): string {
    const edit = new TextEdit(text)
    change(edit)
    return this.#put(edit.result, offset, text.length)
  }

  #put(text: string, offset: number, length: number): string {
    this.changed = { text, offset }
    return this.#text.slice(0, offset) + text + this.#text.slice(offset + length)
  }
}

const textOf = (group: Span, key: string): string | undefined => pairOf(group, key)?.value.text

const indexOfKey = (client: Span, id: string): number =>
  pairOf(client, 'keys')?.value.items?.findIndex((key) => textOf(key, 'id') === id) ?? -1
