/** A running gateway takes another configuration whole, in all its processes, or not at all; and its clients notice nothing but that. */
import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { sha256 } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import { freePort } from '../support/redis-server.ts'
import { endAll, eventually, times, tollgate, type GatewayProcess } from './gateways.ts'
import { atRest, thaw } from '../workers/workers.ts'
import { keptConnections, marksOf, reloading } from './reloads.ts'

afterAll(endAll)

describe.concurrent.each([1, 4])('a reload of %i workers under load', (workers) => {
  it('fails no request, closes no connection and never shows what it refuses', async () => {
    const { gateway, file, write, hangUp, config } = await reloading(workers)
    const load = keptConnections(gateway.origin, 8)
    await eventually('answers', () => load.seen.answers > 8)
    for (const mark of times(12, (at) => at + 1)) {
      const refused = mark % 3 === 0
      if (refused) writeFileSync(file, 'plans: nonsense')
      else if (mark % 3 === 1) write(mark)
      const line = await hangUp(refused ? 'configRefused' : 'configTaken')
      expect(line['problems'] !== undefined).toBe(refused)
      if (!refused) expect((await config()).reason).toBe(`revision ${String(line['revision'])}`)
      expect((await config()).warning !== undefined).toBe(refused)
      await sleep(200)
    }
    const { failures, marks, answers, late, connections } = await load.stop()
    expect(failures).toEqual([])
    expect(late).toBeLessThan(answers / 4)
    expect(connections).toBe(8)
    expect(answers).toBeGreaterThan(100)
    expect([...marks]).toEqual([0, 1, 4, 7, 10])
    expect(await marksOf(gateway.origin, 20)).toEqual(new Set([10]))
    expect(await gateway.metric('tollgate_config_reloads_total{outcome="taken"}')).toBe(8)
    expect(await gateway.metric('tollgate_config_reloads_total{outcome="refused"}')).toBe(4)
    expect(await gateway.metric('tollgate_config_last_reload_successful')).toBe(0)
  })
})

describe.concurrent('a reload', () => {
  it('is refused whole, each key named, where some of it needs a restart', async () => {
    const { gateway, write, hangUp, config } = await reloading(1)
    write(1, {
      admin: 'admin: { listen: "127.0.0.1:1" }',
      store: 'store: { file: "", timeout: 90ms }',
    })
    const problems = ['admin.listen', 'store.timeout'].map(
      (key) => `${key}: needs a restart; put it back as it was, or restart the gateway`,
    )
    expect(await hangUp('configRefused')).toMatchObject({ level: 'error', problems })
    expect(await config()).toMatchObject({
      ok: true,
      warning: `a reload was refused: ${problems[0]}, and 1 more`,
    })
    expect(await marksOf(gateway.origin, 1)).toEqual(new Set([0]))
    write(1)
    expect(await hangUp('configTaken')).toMatchObject({
      blastRadius: {
        counts: { 'limits.raised': 1 },
        limits: { raised: [{ client: 'caller' }], lowered: [] },
      },
    })
    expect(await config()).not.toHaveProperty('warning')
    expect(await marksOf(gateway.origin, 1)).toEqual(new Set([1]))
  })
})

describe('a reload of a file that is unsound in a hundred thousand places', () => {
  it('is refused beside the requests, with the first hundred of its problems', async () => {
    const { gateway, file, hangUp } = await reloading(1)
    writeFileSync(file, `clients: [${'a,'.repeat(100_000)}]`)
    let answers = 0
    const reload = { isOver: false }
    const line = hangUp('configRefused').finally(() => (reload.isOver = true))
    while (!reload.isOver) {
      await marksOf(gateway.origin, 1)
      answers += 1
    }
    expect((await line)['problems']).toHaveLength(101)
    // One that is read by the thread that serves lets a few of them through.
    expect(answers).toBeGreaterThan(100)
    expect(await marksOf(gateway.origin, 1)).toEqual(new Set([0]))
  })

  it('is refused for its size alone, unread', async () => {
    const { file, hangUp } = await reloading(1)
    writeFileSync(file, `# ${'x'.repeat(5 * 2 ** 20)}`)
    expect((await hangUp('configRefused'))['problems']).toEqual([
      expect.stringMatching(/:1:1 \(file\): has more than 4MiB; write its clients into files/),
    ])
  })
})

/** The processes that take requests, in the order in which they began to. */
const workersOf = (gateway: GatewayProcess): number[] =>
  gateway.logged('workerStarted').map(({ pid }) => Number(pid))

describe.concurrent('a reload of which a worker', () => {
  it('does not answer is refused, and nothing has changed', async () => {
    const { gateway, write, hangUp } = await reloading(2)
    const [frozen = 0] = workersOf(gateway)
    process.kill(frozen, 'SIGSTOP')
    write(1)
    const { problems } = await hangUp('configRefused')
    // Its supervisor kills one that stands still, at about the same time.
    expect(problems).toEqual([
      expect.stringMatching(/^worker \d: (has not answered for|has ended)/),
    ])
    thaw(frozen)
    expect(await marksOf(gateway.origin, 20)).toEqual(new Set([0]))
    await hangUp('configTaken')
    expect(await marksOf(gateway.origin, 20)).toEqual(new Set([1]))
  })

  it('stands still after it has prepared is taken, by that one before it serves anything else', async () => {
    const { gateway, write, hangUp } = await reloading(2)
    const [one = 0, other = 0] = workersOf(gateway)
    process.kill(one, 'SIGSTOP')
    write(1)
    const taken = hangUp('configTaken')
    await atRest(gateway.pid, other)
    process.kill(other, 'SIGSTOP')
    process.kill(one, 'SIGCONT')
    await taken
    const answers = marksOf(gateway.origin, 30)
    await sleep(300)
    process.kill(other, 'SIGCONT')
    expect(await answers).toEqual(new Set([1]))
    expect(workersOf(gateway)).toHaveLength(2)
  })

  it('dies after it has prepared, and of which another is being replaced, is taken by all, new ones too', async () => {
    const { gateway, write, hangUp } = await reloading(3)
    const [killed = 0, slow = 0, third = 0] = workersOf(gateway)
    process.kill(slow, 'SIGSTOP')
    write(1)
    const taken = hangUp('configTaken')
    // The others have prepared long before; which one is slow makes no difference to what must come of it.
    await atRest(gateway.pid, killed, third)
    process.kill(killed, 'SIGKILL')
    await eventually('another in its place', () => gateway.logged('workerRestarting').length === 1)
    await sleep(300)
    expect(gateway.logged('configTaken')).toHaveLength(1)
    // It was begun under the old configuration, and has to take the new one before it serves.
    gateway.signal('SIGUSR2')
    await eventually('a roll', () => gateway.logged('rollStarted').length === 1)
    process.kill(slow, 'SIGCONT')
    await taken
    for (let round = 0; round < 20; round++)
      expect(await marksOf(gateway.origin, 5)).toEqual(new Set([1]))
    await eventually('the end of the roll', () => gateway.logged('rollDone').length === 1)
    expect(await marksOf(gateway.origin, 20)).toEqual(new Set([1]))
    expect(gateway.logged('configRefused')).toEqual([])
  })
})

describe.concurrent('a gateway that watches its files', () => {
  it('takes what comes by links that are swapped, by renaming, and after a deletion', async () => {
    const folder = temporaryFolder()
    const at = (name: string): string => join(folder, name)
    // As Kubernetes mounts a ConfigMap.
    const { gateway, text } = await reloading(1, {
      options: ['--watch'],
      place: (first) => {
        mkdirSync(at('..1'))
        writeFileSync(at('..1/gateway.yaml'), first)
        symlinkSync('..1', at('..data'))
        symlinkSync('..data/gateway.yaml', at('gateway.yaml'))
        return at('gateway.yaml')
      },
    })
    const taken = async (change: () => void, mark: number): Promise<void> => {
      change()
      await eventually(`mark ${mark}`, async () => (await marksOf(gateway.origin, 1)).has(mark))
    }
    await taken(() => {
      mkdirSync(at('..2'))
      writeFileSync(at('..2/gateway.yaml'), text(1))
      symlinkSync('..2', at('..tmp'))
      renameSync(at('..tmp'), at('..data'))
      rmSync(at('..1'), { recursive: true })
    }, 1)
    await taken(() => writeFileSync(at('..2/gateway.yaml'), text(2)), 2)
    await taken(() => {
      writeFileSync(at('.gateway.yaml.swp'), text(3))
      renameSync(at('.gateway.yaml.swp'), at('gateway.yaml'))
    }, 3)
    rmSync(at('gateway.yaml'))
    await eventually('a word on it', () => gateway.logged('configRefused').length === 1)
    expect(await marksOf(gateway.origin, 1)).toEqual(new Set([3]))
    await taken(() => writeFileSync(at('gateway.yaml'), text(4)), 4)
    // A file that the configuration names; it is refused as long as it is not there, and taken as soon as it is.
    const keySet = at('keys.json')
    const jwt = `jwt: { issuer: i, audience: a, algorithms: [ES256], jwksFile: keys.json }`
    writeFileSync(at('gateway.yaml'), text(5, { jwt }))
    await eventually('another word', () => gateway.logged('configRefused').length === 2)
    await taken(() => writeFileSync(keySet, newKeySet()), 5)
    const before = gateway.logged('configTaken').length
    writeFileSync(keySet, newKeySet())
    await eventually('the other keys', () => gateway.logged('configTaken').length > before)
    // Where other files are looked at after a change, it is told once more.
    let told = 0
    while (told < gateway.logged('configTaken').length) {
      told = gateway.logged('configTaken').length
      await sleep(3_000)
    }
    writeFileSync(at('gateway.yaml'), text(5, { jwt }))
    await sleep(3_000)
    // The same once more is no change.
    expect(gateway.logged('configTaken')).toHaveLength(told)
  })
})

function newKeySet(): string {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one' }] })
}

describe.concurrent('tollgate reload', () => {
  it('says in words what is taken, what would be, and what cannot be', async () => {
    const { gateway, write, file } = await reloading(2)
    const env: Record<string, string> = {}
    const reload = (...more: string[]) =>
      tollgate(['reload', '--admin', gateway.adminOrigin, ...more], { env }).finished
    write(1)
    const raised =
      /^\^ 1 limit raised: caller 1000000\/min 10000000\/day to 1000001\/min 10000010\/day$/m
    const [dry, taken, json] = [await reload('--dry-run'), await reload(), await reload('--json')]
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringMatching(raised) as string })
    expect(dry.stdout).toMatch(/would be taken\n$/)
    expect(taken).toMatchObject({ code: 0, stdout: expect.stringMatching(raised) as string })
    expect(JSON.parse(json.stdout)).toMatchObject({ outcome: 'taken', blastRadius: { counts: {} } })
    expect(await marksOf(gateway.origin, 10)).toEqual(new Set([1]))
    const token = 'an-operators-token'
    write(2, { admin: `admin: { listen: "127.0.0.1:0", tokenSha256: ${sha256(token)} }` })
    expect((await reload()).stdout).toContain('~ 1 setting: admin.tokenSha256\n')
    const stranger = await tollgate(['reload', '--admin', gateway.adminOrigin]).finished
    expect([stranger.code, stranger.stderr]).toEqual([1, expect.stringContaining(' answers 401\n')])
    env['TOLLGATE_ADMIN_TOKEN'] = token
    writeFileSync(file, 'clients: none')
    const refused = await reload()
    expect(refused.code).toBe(2)
    expect(refused.stdout).toContain(`${file}:1:10 clients: "none" is not a list`)
    const nowhere = `http://127.0.0.1:${await freePort()}`
    const away = await tollgate(['reload', '--admin', nowhere]).finished
    expect(away.code).toBe(1)
    expect(away.stderr).toContain(
      `cannot reach the gateway at ${nowhere}\n  cause   connection refused\n`,
    )
  })
})
