/** An API key as it is made: its text is shown once, and the YAML that lets it in has the digest alone. */
import { createHash, randomBytes } from 'node:crypto'

export interface NewKey {
  readonly key: string
  /** Lines of a `clients` list, indented as below `clients:`. */
  readonly lines: readonly string[]
}

/** expires: as it is to stand in the file; undefined: never. All arguments are valid scalars of their kind. */
export function newKey({
  client,
  plan,
  expires,
}: {
  readonly client: string
  readonly plan: string
  readonly expires?: string | undefined
}): NewKey {
  const key = `tg_${randomBytes(32).toString('base64url')}`
  const lines = [
    // A colon at the end would make it a key of YAML.
    `  - id: ${client.endsWith(':') ? `'${client}'` : client}`,
    `    plan: ${plan}`,
    '    keys:',
    `      - id: ${client}-${randomBytes(3).toString('hex')}`,
    `        sha256: ${createHash('sha256').update(key).digest('hex')}`,
  ]
  if (expires !== undefined) lines.push(`        expires: ${expires}`)
  return { key, lines }
}
