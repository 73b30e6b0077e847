import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { configurationPage } from './configuration-page.ts'
import { gatewaySchema, uncomment } from './gateway-schema.ts'

const read = (name: string): string =>
  readFileSync(new URL(`../../config/${name}`, import.meta.url), 'utf8')

const text = read('gateway.schema.json')
const validate = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(
  JSON.parse(text) as object,
)
const faults = (yaml: string): string[] => {
  validate(parse(yaml))
  return (validate.errors ?? []).map(({ instancePath, keyword }) => `${instancePath} ${keyword}`)
}

interface Part {
  readonly description?: string
  readonly properties?: Readonly<Record<string, Part>>
  readonly items?: Part
  readonly additionalProperties?: Part | boolean
  readonly anyOf?: readonly Part[]
}

/** Every key of the schema without a word of what it is for. */
const silent = (part: Part, path: string): string[] => [
  ...Object.entries(part.properties ?? {}).flatMap(([key, inner]) => [
    ...(inner.properties || (inner.description ?? '').replace(/Default: .*$/, '').length > 8
      ? []
      : [`${path}.${key}`]),
    ...silent(inner, `${path}.${key}`),
  ]),
  ...(part.items ? silent(part.items, `${path}[]`) : []),
  ...(typeof part.additionalProperties === 'object'
    ? silent(part.additionalProperties, `${path}.*`)
    : []),
  ...(part.anyOf ?? []).flatMap((inner) => silent(inner, path)),
]

describe('config/gateway.schema.json', () => {
  it('is what `npm run schema` writes', async () => {
    expect(text).toBe(await gatewaySchema())
  })

  it('has its keys, and no others, in the reference among the docs', () => {
    const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8')
    expect(page).toBe(configurationPage())
    for (const key of ['server.tls.cert', 'clients[].keys[].sha256', 'plans.NAME.perMinute'])
      expect(page).toContain(`| \`${key}\``)
    expect(page).toMatch(/`store\.redis\.sentinels` \| /)
  })

  it('says of every key what it is for, and its default', () => {
    expect(silent(JSON.parse(text) as Part, '')).toEqual([])
    expect(text).toContain('Default: \\"10s\\".')
  })

  it.each(['gateway.yaml', 'minimal.yaml', 'production.yaml', 'compose.yaml'])(
    'takes config/%s, which names it in its first line',
    (name) => {
      const yaml = read(name)
      expect(yaml.split('\n')[0]).toBe('# yaml-language-server: $schema=./gateway.schema.json')
      expect(faults(yaml)).toEqual([])
    },
  )

  it('takes everything optional of config/gateway.yaml', () => {
    expect(faults(uncomment(uncomment(read('gateway.yaml'))))).toEqual([])
  })

  it.each([
    'clients: [{ id: 012345, plan: free }, { id: true, plan: free, keys: [] }]',
    'log: { access: "${ACCESS:-true}", level: "${LEVEL}" }',
    'store: { redis: { cluster: [a:6379], username: gate, password: 12, tls: {} } }',
    'server: { workers: auto }',
  ])('takes %s', (yaml) => {
    expect(faults(yaml)).toEqual([])
  })

  it.each([
    ['unmatched: perhaps', '/unmatched enum'],
    ['sever: {}', ' additionalProperties'],
    ['server: { timeouts: { idle: 10 s } }', '/server/timeouts/idle pattern'],
    ['server: { workers: 0 }', '/server/workers minimum'],
    ['clients: [{ id: a }]', '/clients/0 required'],
    ['plans: { 1st: { perMinute: 1, perDay: 2 } }', '/plans propertyNames'],
    ['upstream: { urls: [] }', '/upstream/urls minItems'],
    ['routes: [{ name: a, match: HEAD /a }]', '/routes/0/match pattern'],
    ['store: { redis: { url: "redis://a", pasword: b } }', '/store/redis/anyOf'],
  ])('refuses %s', (yaml, fault) => {
    expect(faults(yaml).join('\n')).toContain(fault.replace('/anyOf', ' anyOf'))
  })
})
