/** `tollgate explain --config`: where each setting stands, in client files too, and what is refused. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Explanation } from '../../src/insight/api/explain.ts'
import type { Edge } from '../../src/cli/edge.ts'
import { explainOfflineCommand } from '../../src/cli/explain-offline.ts'
import { listener, typed } from '../support/command-line.ts'
import { temporaryFolder } from '../support/processes.ts'

const folder = temporaryFolder()
const write = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const sha256 = (digit: number): string => String(digit).repeat(64)
write(
  'acme.yaml',
  `- { id: other, plan: pro, keys: [] }
- id: acme
  plan: own
  limits: { perMinute: 2, perDay: 9 }
  keys:
    - { id: acme-1, sha256: ${sha256(1)} }
    - { id: acme-2, sha256: ${sha256(2)} }`,
)
write(
  'bolt.jsonl',
  `
{"id":"bolt","plan":"pro","keys":[{"id":"bolt-1","sha256":"${sha256(3)}"}]}
{"id":"c\\u0061p","plan":"pro","keys":[{"id":"k-4","sha256":"${sha256(4)}"}]}`,
)
const file = write(
  'gateway.yaml',
  `upstream:
  urls: [http://127.0.0.1:1]
plans:
  own: { custom: true }
  pro:
    perMinute: 3
    perDay: 9
clientFiles: [acme.yaml, bolt.jsonl]
routes:
  - { name: pets, match: GET /pets }`,
)

write(
  'jwks.json',
  '{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}',
)
const signed = write(
  'signed.yaml',
  `upstream: { urls: [http://127.0.0.1:1] }
plans: { pro: { perMinute: 3, perDay: 9 } }
clientFiles: [bolt.jsonl]
jwt: { issuer: "https://id.example/", audience: a, jwksFile: jwks.json, algorithms: [EdDSA], planClaim: plan }`,
)

async function run(options: Partial<Parameters<typeof explainOfflineCommand>[1]>) {
  const { edge, out } = listener()
  const whole = { what: 'GET /v1/pets', config: file, ...options }
  await explainOfflineCommand(edge as Edge, whole)
  return { text: out.join('\n') }
}

const explained = async (options: object) => {
  const { text } = await run({ json: true, ...options })
  const told = JSON.parse(text) as Explanation
  return {
    ...told,
    places: told.stages.map(({ config }) => config).filter((place) => place !== null),
  }
}

it.each([
  ['acme-2', 'minute=1', null, ['gateway.yaml:10', 'acme.yaml:2', 'acme.yaml:2', 'gateway.yaml:2']],
  ['k-4', 'day=9', 'rate_limit_exceeded', ['gateway.yaml:10', 'bolt.jsonl:3', 'gateway.yaml:7']],
])(
  'tells for %s, who has used %s, %s with the lines that decide',
  async (key, used, code, places) => {
    const told = await explained({ key, used, at: '2026-11-03T14:07:31Z' })
    expect([told.code, told.places]).toEqual([code, places])
    expect(told.assumed?.minute.used).toBe(Number(/minute=(\d)/.exec(used)?.[1] ?? 0))
  },
)

it.each([
  [{ key: 'nobody' }, 'no key nobody is in'],
  [{ at: 'noon' }, '--at noon: write a time as'],
  [{ header: ['Bearer SECRET'] }, '-H: write it as "Name: value"'],
  [{ config: signed, header: ['Authorization: Bearer e30.e30.AA'] }, 'a running gateway alone'],
  [{ what: '4711-ab-1' }, '--config takes a request such as "GET /v1/pets"'],
])('refuses %j', async (options, message) => {
  await expect(run(options)).rejects.toThrow(message)
})

it('sends a header as often as it is written', async () => {
  const { text } = await run({ key: 'bolt-1', header: ['Host: a', 'Host: b'] })
  expect(text).toContain('2 Host fields')
})

it('prints every problem of a configuration that is none, and ends with 2', async () => {
  const broken = write('broken.yaml', 'plans: {}')
  const { code, stdout, stderr } = await typed(['explain', 'GET /v1/pets', '--config', broken])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain('broken.yaml:1:')
})

it.each([
  ['--used needs --config', ['GET /v1/pets', '--used', 'day=9']],
  ['--at needs --config, or --log', ['GET /v1/pets', '--at', '2026-11-03T14:07:31Z']],
  ['write a request as "GET /v1/pets/7", with --key', ['/v1/pets']],
  ['write a request as "GET /v1/pets/7", with --key', ['GET', '--config', file]],
])('says %s rather than pass over it', async (message, args) => {
  const { code, stderr } = await typed(['explain', ...args])
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
})
