/** A running gateway takes another configuration whole, in all its processes, or not at all; and its clients notice nothing but that. */
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { typed } from '../support/command-line.ts'
import { sha256 } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import { atRest, isAlive, jwtBlock, startLoad, thaw } from '../server/workers/workers.ts'
import { eventually } from './gateways.ts'
import { KEY, markOf, marksOf, reloading, reloadingHere, tellsMark } from './reloads.ts'

describe('a gateway of two workers', () => {
  let reloaded: Awaited<ReturnType<typeof reloading>>
  /** Of the revision in force. */
  let mark = 0
  const marks = (count: number) => marksOf(reloaded.gateway.origin, count)
  /** The processes that take requests, in the order in which they began to. */
  const workers = (): number[] =>
    reloaded.gateway
      .logged('workerStarted')
      .map(({ pid }) => Number(pid))
      .filter(isAlive)
  beforeAll(async () => {
    reloaded = await reloading(2)
  })

  it('fails no request under load, closes no connection and never shows what it refuses', async () => {
    const { gateway, file, write, hangUp } = reloaded
    const load = startLoad(gateway.origin, { key: KEY, callers: 0, keepAlive: 8 })
    const answered = async (): Promise<void> => {
      const before = load.answers.length
      await eventually('answers', () => load.answers.length > before + 16)
    }
    await answered()
    for (const step of [1, 2, 3, 4]) {
      const refused = step % 3 === 0
      if (refused) writeFileSync(file, 'plans: nonsense')
      else if (step % 3 === 1) write((mark = step))
      const line = await hangUp(refused ? 'configRefused' : 'configTaken')
      expect(line['problems'] !== undefined).toBe(refused)
      const { reason, warning } = await gateway.check('config')
      if (!refused) expect(reason).toBe(`revision ${String(line['revision'])}`)
      expect(warning !== undefined).toBe(refused)
      expect(await gateway.metric('tollgate_config_last_reload_successful')).toBe(refused ? 0 : 1)
      await answered()
    }
    await load.stop()
    expect(load.errors).toEqual([])
    // The store of a busy machine is late now and then, or away for a moment.
    const inTime = load.answers.filter(tellsMark)
    expect(inTime.length).toBeGreaterThan((load.answers.length * 3) / 4)
    expect(new Set(load.answers.map(({ port }) => port)).size).toBe(8)
    expect([...new Set(inTime.map(markOf))]).toEqual([0, 1, 4])
    expect(await marks(20)).toEqual(new Set([4]))
    expect(await gateway.metric('tollgate_config_reloads_total{outcome="taken"}')).toBe(3)
    expect(await gateway.metric('tollgate_config_reloads_total{outcome="refused"}')).toBe(1)
  })

  it('of which one does not answer refuses a reload, and nothing has changed', async () => {
    const { write, hangUp } = reloaded
    const [frozen = NaN] = workers()
    process.kill(frozen, 'SIGSTOP')
    write(mark + 1)
    const { problems } = await hangUp('configRefused')
    // Its supervisor kills one that stands still, at about the same time.
    expect(problems).toEqual([
      expect.stringMatching(/^worker \d: (has not answered for|has ended)/),
    ])
    thaw(frozen)
    expect(await marks(20)).toEqual(new Set([mark]))
    await hangUp('configTaken')
    expect(await marks(20)).toEqual(new Set([++mark]))
  })

  it('of which one stands still after it has prepared takes a reload, that one before it serves anything else', async () => {
    const { gateway, write, hangUp } = reloaded
    await eventually('two of them', () => workers().length === 2)
    const [one = NaN, other = NaN] = workers()
    process.kill(one, 'SIGSTOP')
    write(++mark)
    const taken = hangUp('configTaken')
    await atRest(gateway.pid, other)
    process.kill(other, 'SIGSTOP')
    thaw(one)
    await taken
    const answers = marks(30)
    await sleep(300)
    thaw(other)
    expect(await answers).toEqual(new Set([mark]))
  })

  it('of which one dies after it has prepared, while another is being replaced, takes a reload in all, new ones too', async () => {
    const { gateway, write, hangUp } = reloaded
    await eventually('two of them', () => workers().length === 2)
    const [killed = NaN, slow = NaN] = workers()
    const number = gateway.logged('workerStarted').find(({ pid }) => pid === killed)?.['worker']
    const before = (event: string) => gateway.logged(event).length
    const [refused, restarts] = [before('configRefused'), before('workerRestarting')]
    process.kill(slow, 'SIGSTOP')
    write(++mark)
    const reload = hangUp('configTaken')
    // The other has prepared long before; which one is slow makes no difference to what must come of it.
    await atRest(gateway.pid, killed)
    process.kill(killed, 'SIGKILL')
    await eventually('another in its place', () => before('workerRestarting') > restarts)
    // It was begun under the old configuration, and has to take the new one before it serves.
    gateway.signal('SIGUSR2')
    await eventually('a roll', () => before('rollStarted') === 1)
    thaw(slow)
    await reload
    for (let round = 0; round < 10; round++) expect(await marks(5)).toEqual(new Set([mark]))
    await eventually('the end of the roll', () => before('rollDone') === 1)
    expect(await marks(20)).toEqual(new Set([mark]))
    // But for the slow one, if a busy machine took longer than that may.
    const refusals = gateway.logged('configRefused').slice(refused)
    expect(JSON.stringify(refusals)).not.toContain(`worker ${String(number)}: has ended`)
  })

  it('says that its files differ from what is in force, until they do not', async () => {
    const { gateway, write, hangUp } = reloaded
    const line = async () => {
      const overview = await (await fetch(`${gateway.adminOrigin}/api/overview`)).json()
      const { attention } = overview as { attention: { kind: string; text: string }[] }
      return attention.find(({ kind }) => kind === 'reload')?.text
    }
    const said = () =>
      eventually('a line', async () => (await line())?.includes('differs from revision') === true)
    expect(await line()).toBeUndefined()
    write(mark + 1)
    await said()
    write(mark)
    await eventually('no line', async () => (await line()) === undefined)
    write(++mark)
    await said()
    await hangUp('configTaken')
    expect(await line()).toBeUndefined()
  })

  it('says to tollgate reload in words what is taken, what would be, and what cannot be', async () => {
    const { gateway, write, file } = reloaded
    const reload = (options: string[] = [], env: Record<string, string> = {}) =>
      typed(['reload', '--admin', gateway.adminOrigin, ...options], { env })
    write(mark, { anonymous: 'anonymous: { perMinute: 61 }' })
    const diff = await typed(['config', '--diff', '--admin', gateway.adminOrigin])
    expect(diff.stdout).toMatch(
      /^ {2}anonymous:\n- {3}perMinute: 60\n\+ {3}perMinute: 61\n[^]*\n~ 1 setting: anonymous\.perMinute\n[^]*would be taken\n$/m,
    )
    write(mark + 1)
    const raised =
      /^\^ enterprise {2}perMinute [\d,]+ to [\d,]+, perDay [\d,]+ to [\d,]+ {2}1 client\n {4}caller\n/m
    const saysSo = { code: 0, stdout: expect.stringMatching(raised) as string }
    const [dry, taken] = [await reload(['--dry-run']), await reload()]
    expect([dry, taken]).toMatchObject([saysSo, saysSo])
    expect(dry.stdout).toMatch(/\nNothing needs a restart\.\nwould be taken\n$/)
    expect(taken.stdout).toMatch(/\ntaken\n$/)
    expect(JSON.parse((await reload(['--json'])).stdout)).toMatchObject({
      outcome: 'taken',
      blastRadius: { counts: {} },
    })
    expect(await marks(10)).toEqual(new Set([++mark]))
    const token = 'an-operators-token'
    write(mark, { admin: `admin: { listen: "127.0.0.1:0", tokenSha256: ${sha256(token)} }` })
    expect((await reload()).stdout).toContain('~ 1 setting: admin.tokenSha256\n')
    const { code, stderr } = await reload()
    expect([code, stderr]).toEqual([1, expect.stringContaining(' answers 401\n')])
    writeFileSync(file, 'clients: none')
    const refused = await reload([], { TOLLGATE_ADMIN_TOKEN: token })
    expect(refused.code).toBe(2)
    expect(refused.stdout).toContain(`${file}:1:10 clients: "none" is not a list`)
  })
})

it('a reload is refused beside the requests, with the first hundred of its problems, and for its size alone', async () => {
  const { gateway, file, hangUp } = await reloadingHere()
  const marks = () => marksOf(gateway.origin, 1)
  writeFileSync(file, `clients: [${'a,'.repeat(20_000)}]`)
  let answers = 0
  const reload = { isOver: false }
  const line = hangUp('configRefused').finally(() => (reload.isOver = true))
  while (!reload.isOver) {
    await marks()
    answers += 1
    // The thread that reads needs the processor as well.
    await sleep(2)
  }
  expect((await line)['problems']).toHaveLength(101)
  // One that is read by the thread that serves lets a few of them through.
  expect(answers).toBeGreaterThan(20)
  writeFileSync(file, `# ${'x'.repeat(5 * 2 ** 20)}`)
  expect((await hangUp('configRefused'))['problems']).toEqual([
    expect.stringMatching(/:1:1 \(file\): has more than 4MiB; write its clients into files/),
  ])
  expect(await marks()).toEqual(new Set([0]))
})

it('a gateway that watches its files takes what comes by links that are swapped, by renaming, and after a deletion', async () => {
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
  await taken(() => writeFileSync(keySet, jwtBlock().text), 5)
  const before = gateway.logged('configTaken').length
  writeFileSync(keySet, jwtBlock().text)
  await eventually('the other keys', () => gateway.logged('configTaken').length > before)
  // Where other files are looked at after a change, it is told once more.
  let told = 0
  while (told < gateway.logged('configTaken').length) {
    told = gateway.logged('configTaken').length
    await sleep(2_500)
  }
  writeFileSync(at('gateway.yaml'), text(5, { jwt }))
  await sleep(2_500)
  // The same once more is no change.
  expect(gateway.logged('configTaken')).toHaveLength(told)
})
