/** Clients as people write them, in JSON and in YAML: what is taken in plain form is what the exact reading makes of them. */
import * as fc from 'fast-check'
import { hash } from 'node:crypto'
import { expect } from 'vitest'
import { readJson } from '../../../src/config/clients/entries.ts'
import { parsePlainItem, parsePlainLine } from '../../../src/config/clients/plain-clients.ts'
import { PlainClients } from '../../../src/config/clients/plain-clients.ts'
import { ClientTable } from '../../../src/config/clients/client-table.ts'
import { Scratch } from '../../../src/config/clients/columns.ts'
import type { WrittenClient } from '../../../src/config/config.ts'
import { readYaml } from '../../../src/config/document.ts'
import { readEntry } from '../../../src/config/parse.ts'
import { valueAt } from '../../../src/config/tree.ts'
import { weighted, type Drawn } from '../../support/drawn.ts'
import { words } from '../../support/words.ts'
import { planConfigs, plans } from './files.ts'

const sha = (text: string): string => hash('sha256', text)
const a = sha('a')

/** The client as a table gives it. */
const fromTable = (client: WrittenClient) => {
  const scratch = new Scratch(Object.keys(plans), JSON.stringify(client).length)
  scratch.add(client, 1)
  const table = scratch.finish(() => undefined)
  return [...new ClientTable(table, planConfigs)]
}

/** What is taken in plain form; undefined: it is left to the schema. */
export function scanned(text: string) {
  const bytes = Buffer.from(text).toString('latin1')
  const client = new PlainClients(plans).read(parsePlainLine(bytes))
  return client && fromTable(client)
}

/** What the schema takes; undefined: it is wrong. */
export function judged(text: string) {
  const { tree, faults } = readJson(text)
  if (tree === undefined || faults.length > 0) return undefined
  const { client, problems } = readEntry(tree, plans)
  return client === undefined || problems.length > 0 ? undefined : fromTable(client)
}

export const oneOf = (...texts: string[]) => fc.constantFrom(...texts)
/** Mostly what is right, so that whole clients often are; sometimes what is not, or nearly. */
const mostly = <T>(right: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) => weighted([20, right], [1, odd])
export const anId = mostly(
  fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,12}$/),
  fc.oneof(
    fc.integer({ min: 125, max: 163 }).map((length) => 'x'.repeat(length)),
    oneOf('constructor', 'toString', 'jwt:a', '-a', '', 'null', '012', 'é', 'a:'),
  ),
)
const aNumber = mostly(
  fc.integer({ min: 1, max: 1200 }).map(String),
  oneOf(...words('0 1000000000 1000000001 1000000000000 1000000000001 01 -1 1e3 2.5')),
)
const noLimits = fc.constant(undefined)
const someLimits = fc.tuple(aNumber, aNumber)
const aPlan = mostly(
  fc.oneof(
    fc.record({ plan: oneOf('pro'), limits: noLimits }),
    fc.record({
      plan: oneOf('enterprise'),
      limits: mostly(
        aNumber.map((number): [string, string] => [number, `${number}0`]),
        someLimits,
      ),
    }),
  ),
  fc.record({
    plan: oneOf('pro', 'enterprise', 'pr', 'prod', 'toString'),
    limits: fc.oneof(noLimits, someLimits),
  }),
)
const aDigest = mostly(
  fc.string().map(sha),
  oneOf(a.toUpperCase(), a.slice(1), `${a}0`, `${a.slice(1)}g`),
)
const aDate = mostly(
  oneOf('2027-06-30', '2024-02-29', '2000-02-29', '1970-01-01', '9999-12-31'),
  oneOf(
    ...words(`2023-02-29 1900-02-29 1969-12-31 2027-13-01 2027-00-01 2027-01-00 2027-04-31
      2027-1-1 2027-06-30T12:00:00Z`),
  ),
)
const aKey = fc.record({ id: anId, sha256: aDigest, expires: fc.option(aDate) })
const group = fc.record({
  id: anId,
  of: aPlan,
  keys: fc.option(fc.array(aKey, { maxLength: 3 })),
  gap: mostly(oneOf('', ' '), oneOf('  ', '\t')),
  /** Puts a piece of text somewhere, as an error of a person would. */
  slip: mostly(
    fc.constant(undefined),
    fc.tuple(fc.nat(400), oneOf(...'" \\ , : { } [ ] - # x'.split(' '), ' ', '\n', '\r')),
  ),
})
type Client = Drawn<typeof group>

const slipped = (text: string, slip: Client['slip']): string => {
  if (slip === undefined) return text
  const at = slip[0] % (text.length + 1)
  return text.slice(0, at) + slip[1] + text.slice(at)
}

const jsonOf = ({ id, of: { plan, limits }, keys, gap, slip }: Client): string => {
  const q = (text: string) => `"${text}"`
  const fields = [`${gap}"id":${gap}${q(id)}`, `"plan":${q(plan)}${gap}`]
  if (limits) fields.push(`"limits":{"perMinute":${limits[0]},${gap}"perDay":${limits[1]}}`)
  const keyOf = ({ id, sha256, expires }: NonNullable<Client['keys']>[number]) =>
    `{"sha256":${q(sha256)},"id":${q(id)}${expires ? `,"expires":${q(expires)}` : ''}${gap}}`
  if (keys) fields.unshift(`"keys":[${gap}${keys.map(keyOf).join(`${gap},`)}]`)
  return slipped(`{${fields.join(',')}}${gap}`, slip).replaceAll('\n', ' ')
}

const yamlOf = ({ id, of: { plan, limits }, keys, gap, slip }: Client): string => {
  const lines = [`- id: ${id}`, `${' '.repeat(2)}plan: ${plan}`, `${gap}# ${plan}`]
  if (limits) lines.push(`  limits: { perMinute: ${limits[0]}, perDay: ${limits[1]} }`)
  if (keys && keys.length > 0) lines.push('  keys:')
  for (const { id, sha256, expires } of keys ?? []) {
    lines.push(`  ${gap}- id: ${id}`, `  ${gap}  sha256: ${sha256}`)
    if (expires) lines.push(`  ${gap}  expires: ${expires}`)
  }
  return slipped(lines.join('\n'), slip)
}

const exactly = (text: string): unknown => {
  const { tree, faults } = readYaml(text, undefined)
  expect(faults).toEqual([])
  return valueAt(tree, 0)
}

/** Nothing would be shown where too little is plain. */
function agree(
  textOf: (drawn: Client) => string,
  [plain, exact]: readonly ((text: string) => unknown)[],
  how: { numRuns: number; seed?: number },
): void {
  let taken = 0
  const agrees = (drawn: Client): void => {
    const text = textOf(drawn)
    const found = plain?.(text)
    if (found === undefined) return
    taken++
    expect(found).toEqual(exact?.(text))
  }
  fc.assert(fc.property(group, agrees), how)
  expect(taken).toBeGreaterThan(how.numRuns / 6)
}
export const jsonAgrees = (how: { numRuns: number; seed?: number }) =>
  agree(jsonOf, [scanned, judged], how)
export const yamlAgrees = (how: { numRuns: number; seed?: number }) =>
  agree(yamlOf, [parsePlainItem, exactly], how)
