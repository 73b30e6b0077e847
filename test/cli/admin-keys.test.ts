/** Commands that ask a running gateway for its keys. */
import { describe, expect, it } from 'vitest'
import { checkCommand } from '../../src/cli/check.ts'
import { keysListCommand } from '../../src/cli/keys-list.ts'
import { ask } from '../../src/cli/operator/asking.ts'
import { listener } from '../support/command-line.ts'
import { configText, sha256, startTestGateway } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import { answer, startRawBackend } from '../support/raw-backend.ts'

const upstreams = ['http://127.0.0.1:9']
const TOKEN = 'an-operators-token'
/** Of which a page has 1,000. */
const COUNT = 1_100
const inADay = new Date(Date.now() + 86_400_000).toISOString()
const clientOf = (at: number): string => {
  const key = { id: `k${at}`, sha256: sha256(String(at)), ...(at === 1_050 && { expires: inADay }) }
  return `- {"id": "c${at}", "plan": "pro", "keys": [${JSON.stringify(key)}]}`
}
const blocks = {
  admin: `admin: { listen: "127.0.0.1:0", tokenSha256: ${sha256(TOKEN)} }`,
  clients: `clients:\n${Array.from({ length: COUNT }, (_, at) => clientOf(at)).join('\n')}`,
}
const text = configText({ upstreams, blocks })

const gateway = await startTestGateway({ upstreams, blocks })
const admin = `http://127.0.0.1:${gateway.adminPort}`

const run = async (command: (edge: ReturnType<typeof listener>['edge']) => Promise<unknown>) => {
  const { edge, out, said } = listener({ TOLLGATE_ADMIN_TOKEN: TOKEN })
  return { code: (await command(edge)) ?? 0, out, said }
}

describe('tollgate keys list --admin', () => {
  it.each<[object, number, string]>([
    [{}, COUNT, 'k0'],
    [{ expiring: '30d' }, 1, 'k1050'],
    [{ client: 'c1050', expiring: '30d' }, 1, 'k1050'],
  ])('lists of %j %d keys over all pages', async (options, count, first) => {
    const { code, out, said } = await run((output) =>
      keysListCommand(output, { admin, json: true, ...options }),
    )
    const keys = JSON.parse(out.join('')) as { keyId: string; client: string; plan: string }[]
    expect([code, keys.length, said]).toEqual([0, count, []])
    expect(keys[0]).toMatchObject({ keyId: first, client: first.replace('k', 'c'), plan: 'pro' })
    expect(out.join('')).not.toContain(sha256('0'))
  })

  it('says that there is no such client, and not so of one whose keys do not end', async () => {
    const of = (client: string) =>
      run((output) => keysListCommand(output, { admin, client, expiring: '30d' }))
    expect(await of('zz')).toEqual({ code: 0, out: [], said: ['# There is no client zz.'] })
    expect(await of('c1')).toEqual({ code: 0, out: [], said: ['No key ends within 30d.'] })
  })

  it('asks the gateway that the environment names, and is refused with a file and an option', async () => {
    const of = (named: string, options: object = { expiring: '30d' }) =>
      run((edge) =>
        keysListCommand({ ...edge, env: { ...edge.env, TOLLGATE_ADMIN: named } }, options),
      )
    expect((await of(admin)).out).toHaveLength(1)
    await expect(of('localhost:1')).rejects.toThrow('TOLLGATE_ADMIN is localhost:1')
    await expect(of('', { admin, config: 'a.yaml' })).rejects.toThrow('give one of them')
  })

  it('waits no longer than it may for what answers with another protocol', async () => {
    const respond = () => answer(101, '', 'Connection: upgrade', 'Upgrade: other')
    const { url } = await startRawBackend({ respond })
    const asked = ask({ admin: url, env: {} }, '/', { signal: AbortSignal.timeout(100) })
    await expect(asked).rejects.toThrow(`cannot reach the gateway at ${url}`)
  })

  it('fails where the gateway does not let it in', async () => {
    const remedy = expect.stringContaining('environment variable TOLLGATE_ADMIN_TOKEN') as string
    await expect(
      run((output) => keysListCommand({ ...output, env: {} }, { admin })),
    ).rejects.toMatchObject({
      code: 'invalid_token',
      why: { reason: expect.stringMatching(/ answers 401$/) as string, remedy },
    })
  })
})

describe('tollgate check --against', () => {
  const against = async (changed: string, expected = 0) => {
    const config = temporaryFile('new.yaml', changed)
    const { code, out } = await run((output) => checkCommand(output, { config, against: admin }))
    expect([code, out[1]]).toEqual([expected, expect.stringMatching(/: ok, revision /)])
    return out
      .slice(2)
      .map((line) =>
        line.replace(/^\w{12} to \w{12}/, 'A to B').replace(/(new\.yaml):\d+$/, '$1:LINE'),
      )
  }

  it('finds nothing in the file that the gateway runs under', async () => {
    expect(await against(text)).toEqual([
      expect.stringMatching(/: the same file, nothing changes$/),
    ])
  })

  it('tells what would change, a replaced secret too', async () => {
    const changed = text
      .replace(sha256('7'), sha256('another'))
      .replace('"id": "c8", "plan": "pro"', '"id": "c8", "plan": "free"')
      .replace(/- \{"id": "c1099".*\n?/, '- { id: added, plan: free }\n')
    expect(await against(`${changed}\nunmatched: reject\n`)).toEqual([
      'A to B',
      '- 1 client: c1099',
      '+ 1 client: added',
      '> 1 client moved: c8 pro to free',
      'v free  perMinute 300 to 60, perDay 10,000 to 1,000  1 client  new.yaml:LINE',
      '    c8',
      '- 2 keys: k7 (c7), k1099 (c1099)',
      '+ 1 key: k7 (c7)',
      '~ 1 setting: unmatched',
      'Nothing needs a restart.',
    ])
  })

  it('names those first whom the gateway has seen nearest a limit', async () => {
    await gateway.status('/v1/pets', { key: '1050' })
    const lower = text.replace('perDay: 10000 }', 'perDay: 9000 }')
    const changes = async () => (await against(lower)).slice(1, 3)
    await expect
      .poll(changes)
      .toEqual([
        'v pro  perDay 10,000 to 9,000  1,100 clients  new.yaml:LINE',
        '    c1050, c0, c1, c2, c3, c4, c5, c6, c7, c8, and 1,090 more',
      ])
  })

  it('is refused where a reload would be: a setting needs a restart', async () => {
    const changed = text.replace('store: { file: ""', 'store: { file: "", timeout: 77ms')
    expect(await against(changed, 2)).toEqual([
      'A to B',
      '~ 1 setting: store.timeout',
      '! 1 setting taken at a start only, a reload refuses the whole file for this: store.timeout',
    ])
  })

  it('names its option where nobody answers', async () => {
    const config = temporaryFile('new.yaml', text)
    await expect(
      run((output) => checkCommand(output, { config, against: 'http://127.0.0.1:1' })),
    ).rejects.toMatchObject({
      message: 'cannot reach the gateway at http://127.0.0.1:1',
      why: { remedy: 'start it: tollgate start; or name it: --against URL' },
    })
  })
})
