/** `npm run chaos`: starts a run in a group of its own, and ends the whole group with it, whatever happens. */
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const usage = 'usage: npm run chaos -- [--minutes 10] [--seed N]'

export interface ChaosOptions {
  readonly minutes: number
  /** What faults and clients do follows from it; when each comes about is the machine's. */
  readonly seed: number
}

/** Runs to the end, or until ended. Resolves with the exit code, and what was written. */
export function startChaos({ minutes, seed }: ChaosOptions) {
  const player = spawn(
    process.execPath,
    [join(import.meta.dirname, 'player.ts'), String(minutes), String(seed)],
    // A group of its own; the channel tells it when this process has gone.
    {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      // Started by a test it is none itself.
      env: { PATH: process.env['PATH'] },
    },
  )
  let written = ''
  for (const stream of [player.stdout, player.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (written += text))
  const end = (): void => {
    try {
      process.kill(-(player.pid ?? 0), 'SIGKILL')
    } catch {
      // Nobody is left.
    }
  }
  player.once('exit', end)
  const finished = once(player, 'close').then(([code]) => ({
    code: code as number | null,
    written,
  }))
  return { finished, end }
}

function parseOptions(argv: readonly string[]): ChaosOptions {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string', default: String(randomInt(1_000_000)) },
    },
  })
  const [minutes, seed] = [Number(values.minutes), Number(values.seed)]
  if (!(minutes >= 1 && minutes <= 600)) throw new Error(`--minutes takes 1 to 600; ${usage}`)
  if (!Number.isSafeInteger(seed)) throw new Error(`--seed takes a whole number; ${usage}`)
  return { minutes, seed }
}

if (import.meta.main) {
  const { finished, end } = startChaos(parseOptions(process.argv.slice(2)))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, end)
  const { code, written } = await finished
  console.log(written)
  process.exitCode = code ?? 1
}
