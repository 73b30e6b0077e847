/** Makes an API key: its text is shown once, files have its digest alone. */
import { createHash, randomBytes } from 'node:crypto'
import type { KeyEntry } from './client-text.ts'

/** expires: as written in the file; undefined: never. */
export function newKey(client: string, expires?: string): { key: string; entry: KeyEntry } {
  const key = `tg_${randomBytes(32).toString('base64url')}`
  const id = `${client}-${randomBytes(3).toString('hex')}`
  const sha256 = createHash('sha256').update(key).digest('hex')
  return { key, entry: { id, sha256, ...(expires !== undefined && { expires }) } }
}
