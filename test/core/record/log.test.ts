import { execFileSync, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createLog, type Log, type LogOptions } from '../../../src/core/record/log.ts'
import type { Exchange } from '../../../src/core/pipeline/exchange.ts'
import { refuse, type RefusalCode } from '../../../src/core/rules/refusals.ts'
import { passing } from '../../support/log-lines.ts'
import { temporaryFile } from '../../support/processes.ts'

type Line = Record<string, unknown>

/** A log and the raw lines that it writes. */
function logs(more: Partial<LogOptions> = {}): { log: Log; lines: string[] } {
  const lines: string[] = []
  const destination = passing((line) => lines.push(line))
  return { log: createLog({ level: 'info', access: true, destination, ...more }), lines }
}

const parse = (line: string | undefined): Line => JSON.parse(line ?? 'null') as Line

const times = { nowMs: Date.now(), totalMs: 4.7, gatewayMs: 0.1234568, backendMs: 4.5765432 }
const window = { limit: 300, resetAtSeconds: 1_800_000_000, resetAfterSeconds: 10 }

interface More extends Partial<Omit<Exchange, 'refusal'>> {
  readonly method?: string
  readonly refusal?: RefusalCode
  readonly window?: 'minute' | 'day'
}

const exchange = ({ refusal, window: by, ...more }: More = {}) =>
  ({
    id: '0123456789abcdef',
    process: undefined,
    terms: { revision: '3f9c21' },
    decidedMs: undefined,
    refundedMs: undefined,
    request: { method: more.method ?? 'GET', receivedBytes: 0 },
    sender: { address: '192.0.2.17' },
    path: '/v1/pets',
    tunnelEnd: undefined,
    refusedCaller: undefined,
    route: { name: 'listPets' },
    caller: caller('acme'),
    quota: { minute: { ...window, remaining: 299 }, day: { ...window, remaining: 9_999 } },
    degraded: false,
    waitedMs: 0,
    responseBytes: 512,
    status: 200,
    backend: 'http://10.0.0.1:3000',
    retried: undefined,
    trace: undefined,
    refusal: refusal && refuse(refusal, { window: by }),
    cause: undefined,
    ...more,
  }) as Exchange

const caller = (clientId: string) =>
  ({ clientId, plan: 'pro', keyId: `${clientId}-1` }) as Exchange['caller']

describe('the access line', () => {
  it('carries the request, flat, in one JSON object ended by one newline', () => {
    const { log, lines } = logs()
    log.access(exchange(), times)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(/^\{[^\n]*\}\n$/)
    const { time, ...line } = parse(lines[0])
    expect(Math.abs(Date.now() - Date.parse(String(time)))).toBeLessThan(60_000)
    expect(line).toEqual({
      level: 'info',
      event: 'access',
      id: '0123456789abcdef',
      client: 'acme',
      key: 'acme-1',
      plan: 'pro',
      route: 'listPets',
      method: 'GET',
      path: '/v1/pets',
      status: 200,
      gatewayMs: 0.123,
      backend: 'http://10.0.0.1:3000',
      backendMs: 4.577,
      totalMs: 4.7,
      requestBytes: 0,
      responseBytes: 512,
      address: '192.0.2.17',
      minuteLeft: 299,
      dayLeft: 9_999,
    })
  })

  it('tells what a replay needs and what does not follow from the rest of it', () => {
    const { log, lines } = logs()
    const decidedMs = Date.now() - 5
    log.access(exchange({ decidedMs: decidedMs + 0.002, refundedMs: decidedMs + 1.001 }), times)
    const refused = { refusal: 'rate_limit_exceeded', window: 'day', decidedMs } as const
    log.access(exchange({ ...refused, process: '0123456789abcdef', quota: undefined }), times)
    log.access(exchange(refused), times)
    const [first, second, third] = lines.map(parse)
    const at = (line: Line | undefined, field: string): number =>
      Math.round((Date.parse(String(line?.['time'])) - Number(line?.[field])) * 1000) / 1000
    expect(at(first, 'agoMs')).toBeCloseTo(decidedMs + 0.002, 3)
    expect(at(first, 'refundAgoMs')).toBeCloseTo(decidedMs + 1.001, 3)
    expect(at(second, 'agoMs')).toBe(decidedMs)
    expect(second).toMatchObject({ rev: '3f9c21', process: '0123456789abcdef', window: 'day' })
    expect(third).not.toHaveProperty('window')
    expect(third).not.toHaveProperty('process')
  })

  it('has the level of the refusal, its code and its cause', () => {
    const { log, lines } = logs()
    const failed = { refusal: 'bad_gateway', cause: 'ECONNRESET', degraded: true } as const
    log.access(exchange({ status: 502, ...failed }), times)
    expect(parse(lines[0])).toMatchObject({ level: 'warn', ...failed })
  })

  it('is not written when switched off or below the level', () => {
    const failed = { status: 502, refusal: 'bad_gateway' } as const
    for (const [options, request, count] of [
      [{ access: false }, {}, 0],
      [{ level: 'warn' }, {}, 0],
      [{ level: 'silent' }, failed, 0],
      [{ level: 'warn' }, failed, 1],
    ] as const) {
      const { log, lines } = logs(options)
      log.access(exchange(request), times)
      expect(lines).toHaveLength(count)
    }
  })

  it('never holds the query or the fragment', () => {
    const { log, lines } = logs()
    log.access(exchange({ path: '/v1/pets?api_key=secret-1' }), times)
    log.access(exchange({ path: '/v1/pets#secret-2?x' }), times)
    expect(lines.map((line) => parse(line)['path'])).toEqual(['/v1/pets', '/v1/pets'])
    expect(lines.join('')).not.toContain('secret')
  })

  it('cannot be forged, split or used to steer a terminal', () => {
    const { log, lines } = logs()
    const evil = '"}\n{"level":"fatal"}\r\u001b[2J\u0000\u007f\u009b31m\u2028\u202e\ud800'
    const own = { id: evil, caller: caller(evil), method: evil, cause: evil }
    log.access(exchange({ ...own, path: evil, refusal: 'invalid_request' }), times)
    expect(lines).toHaveLength(1)
    // eslint-disable-next-line no-control-regex
    expect(lines[0]).toMatch(/^[\x20-\x7e]+\n$/)
    expect(parse(lines[0])['level']).toBe('info')
    expect(parse(lines[0])['path']).toContain('\\u{1b}[2J')
  })

  it('stays short whatever arrives', () => {
    const { log, lines } = logs()
    const huge = '\u0001'.repeat(1_000_000)
    const own = { id: huge, caller: caller(huge), method: huge, cause: huge }
    log.access(exchange({ ...own, path: `/${huge}`, refusal: 'invalid_request' }), times)
    expect(lines[0]?.length).toBeLessThan(16_000)
    expect(parse(lines[0])['path']).toMatch(/^\/\\u\{1\}.*\.\.\.$/)
  })

  it.each(['missing_api_key', 'rate_limit_exceeded', 'api_key_banned'] as const)(
    'is limited per second for who goes on after %s, apart from all else, and what was left out is told',
    async (refusal) => {
      const { log, lines } = logs()
      const anonymous = { caller: undefined, status: 401, refusal: 'missing_api_key' } as const
      const overQuota = { status: 429, refusal: 'api_key_banned' } as const
      const [flood, other] =
        refusal === 'missing_api_key'
          ? [anonymous, overQuota]
          : [{ ...overQuota, refusal }, anonymous]
      for (let index = 0; index < 20_000; index++) log.access(exchange(flood), times)
      const others = [
        exchange(),
        exchange({ status: 404, refusal: 'not_found' }),
        exchange({ status: 503, refusal: 'service_unavailable' }),
        exchange({ status: 429 }),
        exchange(other),
      ]
      for (const each of others) log.access(each, times)
      await log.close()
      const parsed = lines.map(parse)
      const shown = parsed.filter((line) => line['refusal'] === refusal).length
      const hidden = parsed.filter((line) => line['event'] === 'linesSuppressed')
      // They may fall into two or more seconds on a slow machine.
      expect(shown).toBeLessThan(10_000)
      expect(hidden.reduce((sum, line) => sum + Number(line['lines']), 0)).toBe(20_000 - shown)
      const last = parsed.filter(
        (line) => line['event'] === 'access' && line['refusal'] !== refusal,
      )
      expect(last).toHaveLength(others.length)
    },
  )

  it('of one key leaves room for those of others', async () => {
    const { log, lines } = logs()
    const refused = (client: string) =>
      exchange({ status: 429, refusal: 'api_key_banned', caller: caller(client) })
    for (let index = 0; index < 5_000; index++) log.access(refused('noisy'), times)
    for (let index = 0; index < 5; index++) log.access(refused('quiet'), times)
    await log.close()
    const shown = (client: string): number =>
      lines.filter((line) => parse(line)['client'] === client).length
    // A hundred lines a second; the flood may take several.
    expect(shown('noisy')).toBeLessThan(1_000)
    expect(shown('quiet')).toBe(5)
  })

  it('that was left out is told of although nothing comes after it', async () => {
    const { log, lines } = logs()
    const refusal = 'rate_limit_exceeded'
    for (let index = 0; index < 1_000; index++)
      log.access(exchange({ status: 429, refusal }), times)
    const told = (): number =>
      lines.map(parse).reduce((sum, line) => sum + Number(line['lines'] ?? 1), 0)
    await expect.poll(told).toBe(1_000)
    await log.close()
    expect(told()).toBe(1_000)
  })
})

describe('the other lines', () => {
  it.each<[string, keyof Log, unknown?]>([
    ['info', 'listening', { listener: 'public', host: '::1', port: 8080 }],
    ['error', 'storeLost', { mode: 'local', server: 'a:1', cause: 'timeout' }],
    ['info', 'storeBack', { server: 'a:1', outageMs: 1_500 }],
    ['warn', 'keyBanned', { client: 'acme', key: 'acme-1', forMs: 60_000, strikes: 20 }],
    ['error', 'banStoreLost'],
    ['info', 'banStoreBack'],
    ['warn', 'clockWentBack', { bySeconds: 3600 }],
    ['error', 'countersNotKept', new Error('x cannot be written')],
    ['info', 'countersKept'],
    ['warn', 'backendFailed', { id: 'x', backend: 'http://a', kind: 'broken', cause: 'half' }],
    ['warn', 'keySetFailed', { cause: 'timeout' }],
    ['info', 'clientError', { id: 'i', address: '192.0.2.1', code: 'HPE', target: undefined }],
    ['error', 'internalError', { id: 'x', error: new Error('a bug') }],
    ['info', 'draining', { inFlight: 3, timeoutMs: 20_000 }],
    ['info', 'drained', { cutOff: 0 }],
    ['info', 'signalIgnored', { signal: 'SIGHUP', message: 'none' }],
    ['warn', 'warning', new Error('SQLite is an experimental feature')],
    ['error', 'catalogueFailed', { message: 'GET failed' }],
  ])('of level %s is %s', (level, event, told) => {
    const { log, lines } = logs()
    ;(log[event] as (told: unknown) => void)(told)
    expect(lines.map(parse)).toMatchObject([{ level, event }])
  })

  it('say why nothing starts although nothing else is to be said', () => {
    const { log, lines } = logs({ level: 'silent' })
    log.configTaken({ revision: 'abc', store: 'embedded (in memory only)' })
    log.crash(new Error('x'))
    log.configRefused({ problems: ['gateway.yaml:3:1 plans: empty; name one'] })
    log.startFailed(new Error('the address is in use'))
    expect(lines.map(parse)).toMatchObject([
      {
        level: 'error',
        event: 'configRefused',
        problems: ['gateway.yaml:3:1 plans: empty; name one'],
      },
      { level: 'fatal', event: 'startFailed', message: 'the address is in use' },
    ])
  })

  it('of a worker are passed on as they are, and whatever else it writes becomes a line', () => {
    const { log: worker, lines: own } = logs({ worker: 2 })
    worker.access(exchange(), times)
    expect(parse(own[0])).toMatchObject({ worker: 2, event: 'access' })
    const { log, lines } = logs()
    log.relay(`${own[0]}<--- Last few GCs --->\n\u001b[31m\n${own[0]}`)
    expect(lines.join('').split('\n').slice(0, 2)).toEqual([own[0]?.trimEnd(), own[0]?.trimEnd()])
    expect(lines.slice(1).map(parse)).toMatchObject([
      { level: 'warn', event: 'workerOutput', message: '<--- Last few GCs --->' },
      { level: 'warn', event: 'workerOutput', message: '\\u{1b}[31m' },
    ])
  })

  it('show of an error its message, code and stack, not what libraries hang on it', () => {
    const { log, lines } = logs()
    const error = Object.assign(new Error('no auth\u009b'), {
      code: 'NOAUTH',
      command: { name: 'auth', args: ['hunter2'] },
    })
    log.crash(error)
    log.adminFailed('a string')
    expect(parse(lines[0])).toMatchObject({
      level: 'fatal',
      error: 'Error: no auth\\u{9b}',
      code: 'NOAUTH',
    })
    expect(parse(lines[0])['stack']).toMatch(/^Error: no auth\\u\{9b\}\n.*log\.test\.ts/)
    expect(lines.join('')).not.toContain('hunter2')
    expect(parse(lines[1])['error']).toBe('a string')
  })
})

describe('text for reading along', () => {
  const clock = /^\[\d\d:\d\d:\d\d\.\d{3}\] /

  it('has the time, the level, the event and its fields on one line; what is looked for first of a request in front', () => {
    const { log, lines } = logs({ format: 'text' })
    log.access(exchange(), times)
    const day = { ...window, remaining: 12 }
    log.access(exchange({ quota: { minute: { ...window, remaining: 299 }, day } }), times)
    const time = '2026-11-03T14:07:31.123Z'
    log.relay(`${JSON.stringify({ level: 'warn', time, worker: 1, event: 'keyBanned' })}\n`)
    log.relay('{"level":"warn","time":"2026\n')
    expect(lines[0]).toMatch(clock)
    expect(lines[0]?.replace(clock, '')).toMatch(
      /^INFO: GET \/v1\/pets 200 [\d.]+ ms acme 299\/300 id=0123456789abcdef key=.*dayLeft=9999\n$/,
    )
    expect(lines[1]).toContain(' acme 12/300 today id=')
    expect(lines[2]).toMatch(/^\[\d\d:\d\d:31\.123\] WARN: keyBanned worker=1\n$/)
    expect(lines[3]).toBe('{"level":"warn","time":"2026\n')
  })

  it('says what a reload has changed in words', () => {
    const { log, lines } = logs({ format: 'text' })
    const none = { added: [], removed: [], changed: [] }
    const blastRadius = {
      from: 'aaaaaa',
      to: 'bbbbbb',
      clients: { ...none, removed: ['acme'], moved: [] },
      limits: { lowered: [], raised: [] },
      keys: { ...none, revoked: [{ key: 'acme-1', client: 'acme' }] },
      routes: none,
      settings: ['server.limits'],
      needsRestart: [],
      counts: {},
    }
    log.configTaken({ revision: 'bbbbbb', blastRadius })
    expect(lines.join('')).toMatch(
      /configTaken revision=bbbbbb\n {4}aaaaaa to bbbbbb\n {4}- 1 client: acme\n {4}- 1 key: acme-1 \(acme\)\n {4}~ 1 setting: server\.limits\n$/,
    )
  })

  it('gives problems and a stack lines of their own', () => {
    const { log, lines } = logs({ format: 'text' })
    log.configRefused({ problems: ['a.yaml:3:1 plans: empty; name one', 'a.yaml:4:1 x: y; z'] })
    expect(lines[0]?.replace(clock, '')).toBe(
      'ERROR: configRefused\n    a.yaml:3:1 plans: empty; name one\n    a.yaml:4:1 x: y; z\n',
    )
    log.crash(new Error('the end'))
    expect(lines[1]).toContain('FATAL: crash error=Error: the end\n    Error: the end\n')
    expect(lines[1]).toMatch(/\n +at .*log\.test\.ts/)
  })
})

describe('writing to a descriptor', () => {
  it('shows a lone access line soon, and a crash at once', async () => {
    const file = temporaryFile('log', '')
    const fd = openSync(file, 'w')
    const log = createLog({ level: 'info', access: true, destination: fd })
    log.access(exchange(), times)
    await expect.poll(() => readFileSync(file, 'utf8')).toContain('"access"')
    log.crash(new Error('the end'))
    expect(readFileSync(file, 'utf8')).toContain('the end')
    await log.close()
    closeSync(fd)
  })

  it('names the lines for which there was no room', async () => {
    const file = temporaryFile('log', '')
    const fd = openSync(file, 'w')
    const log = createLog({ level: 'info', access: true, destination: fd })
    // Nothing is written before this turn of the event loop is over.
    for (let index = 0; index < 20_000; index++) log.access(exchange(), times)
    const lost = log.lostLines()
    await log.close()
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n').map(parse)
    expect(lines.filter(({ event }) => event === 'access')).toHaveLength(20_000 - lost)
    const named = lines.filter(({ event }) => event === 'linesDropped')
    expect(named).toMatchObject([{ level: 'warn', lines: lost }])
    closeSync(fd)
  })

  it('outlives a reader that went away, and can still end', async () => {
    // The child logs to a pipe whose reader is closed, by every way there is to write, and must end by itself.
    const child = run(`
      await new Promise((resolve) => process.stdin.once('data', resolve))
      for (let round = 0; round < 5; round++) {
        for (let index = 0; index < 100; index++) log.access(exchange, times)
        log.storeBack({ server: undefined, outageMs: 1 })
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      log.crash(new Error('x'))
      await log.close()
      process.stdout.write('ended', () => process.exit(0))
    `)
    child.stderr.destroy()
    child.stdin.write('go\n')
    expect(await endOf(child)).toEqual({ code: 0, stdout: 'ended' })
  })

  it('keeps its lines whole on a pipe that another process writes to as well, though it is full', async () => {
    const writer = (name: string): string => `
      import { createLog } from '${module}'
      const log = createLog({ level: 'info', access: true, destination: 1, isShared: true })
      for (let index = 0; index < 400; index++) {
        log.access({ ...${JSON.stringify(exchange())}, id: '${name}' + 'x'.repeat(199) }, ${JSON.stringify(times)})
        if (index % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 5))
      }
      await log.close()`
    const [one, other] = ['a', 'b'].map((name) => temporaryFile('writer.mjs', writer(name)))
    const reader = temporaryFile(
      'reader.mjs',
      `import { readSync, writeSync } from 'node:fs'
      const bytes = Buffer.alloc(4_000)
      const wait = new Int32Array(new SharedArrayBuffer(4))
      for (let length = 1; length > 0; Atomics.wait(wait, 0, 0, 1))
        writeSync(1, bytes, 0, (length = readSync(0, bytes)))`,
    )
    const node = `"${process.execPath}"`
    const both = `(${node} ${one} & ${node} ${other} & wait) | ${node} ${reader}`
    const lines = execFileSync('sh', ['-c', both], { encoding: 'utf8' }).trimEnd().split('\n')
    const writers = lines.map((line) => String(parse(line)['id'])[0])
    const countOf = (name: string): number => writers.filter((each) => each === name).length
    expect([countOf('a'), countOf('b'), lines.length]).toEqual([400, 400, 800])
  })

  it('does not wait for ever, nor grow, when nobody reads', async () => {
    // Nothing reads stderr: the pipe fills up, the lines beyond the cap are dropped, and close() gives up.
    const child = run(`
      const heldMiB = () => {
        gc()
        const { heapUsed, external } = process.memoryUsage()
        return (heapUsed + external) / 2 ** 20
      }
      const before = heldMiB()
      for (let round = 0; round < 100; round++) {
        for (let index = 0; index < 1000; index++) log.access(exchange, times)
        await new Promise(setImmediate)
      }
      const grownMiB = heldMiB() - before
      await log.close()
      log.flushSync()
      process.stdout.write(grownMiB < 20 ? 'bounded' : 'grown by ' + grownMiB, () => process.kill(process.pid, 'SIGKILL'))
    `)
    expect((await endOf(child)).stdout).toBe('bounded')
  })
})

const module = new URL('../../../src/core/record/log.ts', import.meta.url).href

/** A child with \`log\` on its stderr (a pipe) and one \`exchange\` to log. */
function run(body: string) {
  const script = `
    import { createLog } from '${module}'
    const log = createLog({ level: 'info', access: true })
    const exchange = ${JSON.stringify(exchange())}
    const times = ${JSON.stringify(times)}
    ${body}
  `
  return spawn(process.execPath, ['--expose-gc', '--input-type=module', '--eval', script], {
    stdio: 'pipe',
  })
}

function endOf(child: ReturnType<typeof run>): Promise<{ code: number | null; stdout: string }> {
  let stdout = ''
  child.stdin.on('error', () => {})
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  // Whatever nobody read is let go at the end, as 'close' waits for it.
  child.once('exit', () => child.stderr.resume())
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout })))
}
