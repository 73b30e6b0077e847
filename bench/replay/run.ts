/**
 * What a replay takes, as a process of its own: reading and deciding together, and reading alone beside it.
 *
 *     node bench/replay/run.ts --config gateway.json LOG...
 *
 * --shuffled: also that lines out of order, within the window, make the same report: LOG is copied so beside itself, and
 * the copy is deleted again.
 */
import { execFile } from 'node:child_process'
import { createReadStream, openSync, closeSync, rmSync, writeSync } from 'node:fs'
import { loadavg } from 'node:os'
import { argv, execPath, hrtime } from 'node:process'
import { createInterface } from 'node:readline'
import { parseArgs, promisify } from 'node:util'
import { openLogs } from '../../src/tools/log-files/open.ts'
import { MINUTE_MS } from '../../src/config/time.ts'

const TOLLGATE = new URL('../../src/main.ts', import.meta.url).pathname
const USAGE_TO_STDERR = `data:text/javascript,process.on('exit', () => process.stderr.write(JSON.stringify(process.resourceUsage()) + '\\n'))`
const REPORT_BYTES = 2 ** 28
/** Less than the window, by more than the longest answer takes. */
const LATEST_MS = MINUTE_MS / 2

type Usage = Pick<NodeJS.ResourceUsage, 'maxRSS' | 'userCPUTime' | 'systemCPUTime'>

const { values, positionals: logs } = parseArgs({
  allowPositionals: true,
  options: {
    config: { type: 'string' },
    shuffled: { type: 'boolean', default: false },
    'reading-alone': { type: 'boolean', default: false },
  },
})

if (values['reading-alone']) await readAlone()
else {
  console.log(
    'load',
    loadavg()
      .map((load) => load.toFixed(1))
      .join(' '),
  )
  const alone = await timed([argv[1] ?? '', '--reading-alone', ...logs])
  const { lines } = JSON.parse(alone.text) as { lines: number }
  tell('reading alone', lines, alone)
  if (values.config !== undefined) {
    const sorted = await replayed(logs, lines)
    if (values.shuffled) await compare(sorted, lines)
  }
}

async function readAlone(): Promise<void> {
  const opened = openLogs(logs)
  let requests = 0
  for await (const rows of opened.batches()) requests += rows.length
  const { lines, late, unreadable } = opened.reading
  console.log(JSON.stringify({ lines, requests, late, unreadable }))
}

async function replayed(files: readonly string[], lines: number): Promise<string> {
  const command = [TOLLGATE, 'replay', '--json', '--config', values.config ?? '', ...files]
  const { text, ...took } = await timed(command)
  tell('tollgate replay', lines, took)
  return text
}

async function compare(sorted: string, lines: number): Promise<void> {
  const copies = logs.map((log) => `${log}.shuffled`)
  try {
    for (const [nth, log] of logs.entries()) await shuffle(log, copies[nth] ?? '')
    const other = await replayed(copies, lines)
    const isSame = withoutNames(sorted) === withoutNames(other)
    console.log(`shuffled by up to ${LATEST_MS / 1000} s:`, isSame ? 'the same report' : 'DIFFERS')
    if (!isSame) process.exitCode = 1
  } finally {
    for (const copy of copies) rmSync(copy, { force: true })
  }
}

/** Each line is put up to LATEST_MS later than it stood, the same each time. */
async function shuffle(from: string, to: string): Promise<void> {
  let waiting: { readonly atMs: number; readonly line: string }[] = []
  let seed = 1
  let written = 0
  const file = openSync(to, 'w')
  const writeUntil = (untilMs: number): void => {
    const due = waiting.filter(({ atMs }) => atMs <= untilMs)
    waiting = waiting.filter(({ atMs }) => atMs > untilMs)
    due.sort((one, other) => one.atMs - other.atMs)
    writeSync(file, due.map(({ line }) => `${line}\n`).join(''))
    written = untilMs
  }
  for await (const line of createInterface({
    input: createReadStream(from),
    crlfDelay: Infinity,
  })) {
    const nowMs = Date.parse(/"time":"([^"]+)"/.exec(line)?.[1] ?? '')
    seed = (seed * 48_271) % 0x7fffffff
    waiting.push({ atMs: nowMs + (seed / 0x7fffffff) * LATEST_MS, line })
    if (nowMs - written >= 1_000) writeUntil(nowMs)
  }
  writeUntil(Infinity)
  closeSync(file)
}

/** A report names the files it was read from, and how many lines came late. */
function withoutNames(report: string): string {
  const { read, ...rest } = JSON.parse(report) as { read: Record<string, unknown> }
  return JSON.stringify([rest, { ...read, files: undefined, late: undefined }])
}

async function timed(command: readonly string[]) {
  const began = hrtime.bigint()
  const { stdout: text, stderr } = await promisify(execFile)(
    execPath,
    ['--import', USAGE_TO_STDERR, ...command],
    { maxBuffer: REPORT_BYTES },
  )
  // Its threads tell it, too, when they end; the process is the last to end.
  const last = stderr.trimEnd().split('\n').at(-1) ?? ''
  return {
    text,
    usage: JSON.parse(last) as Usage,
    seconds: Number(hrtime.bigint() - began) / 1e9,
  }
}

function tell(what: string, lines: number, { usage, seconds }: { usage: Usage; seconds: number }) {
  const cpuSeconds = (usage.userCPUTime + usage.systemCPUTime) / 1e6
  console.log(what, {
    lines,
    seconds: Number(seconds.toFixed(1)),
    cpuSeconds: Number(cpuSeconds.toFixed(1)),
    cpuMicrosPerLine: Number(((cpuSeconds * 1e6) / lines).toFixed(2)),
    linesPerSecond: Math.round(lines / seconds),
    peakMiB: Math.round(usage.maxRSS / 1024),
  })
}
