/** Backends as processes of their own on ports that they keep, and what they have written down. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { atEnd } from '../support/ending.ts'
import { endOf, freePort } from '../support/redis-server.ts'
import { temporaryFile } from '../support/processes.ts'
import type { Line, Mood } from './backend.ts'
import type { Sighting } from './events.ts'

export interface ChaosBackend {
  readonly name: string
  readonly url: string
  be(mood: Mood): void
  /** SIGSTOP: connections stay open, nothing is answered. */
  freeze(): void
  thaw(): void
  kill(): Promise<void>
  restart(): Promise<void>
  /** All so far. */
  sightings(): readonly Sighting[]
}

export async function startBackend(name: string): Promise<ChaosBackend> {
  const port = await freePort()
  const book = temporaryFile(`${name}.jsonl`, '')
  const launch = async (): Promise<ChildProcess> => {
    const started = fork(join(import.meta.dirname, 'backend.ts'), [String(port), book], {
      // Started by a test it is none itself.
      env: { PATH: process.env['PATH'] },
      execArgv: [],
    })
    await once(started, 'message')
    return started
  }
  let child = await launch()
  const kill = (): Promise<void> => endOf(child)
  atEnd(kill)
  return {
    name,
    url: `http://127.0.0.1:${port}`,
    be: (mood) => void child.send(mood),
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    kill,
    restart: async () => {
      child = await launch()
    },
    sightings: openBook(name, book),
  }
}

/** What a backend has said that it saw. */
export function createBook(backend: string) {
  const sightings: Sighting[] = []
  // A retry may bring a number here once more: a body belongs to the last head of its number.
  const latest = new Map<number, Sighting>()
  const take = (line: Line): void => {
    if ('saw' in line) {
      const { saw: number, method, client, atMs } = line
      const sighting: Sighting = { number, backend, method, client, atMs, body: undefined }
      sightings.push(sighting)
      latest.set(number, sighting)
      return
    }
    const sighting = latest.get(line.read)
    if (sighting !== undefined) sighting.body = line.body
  }
  return { sightings, take }
}

/** Reads on from where it was last time. */
function openBook(backend: string, path: string): () => readonly Sighting[] {
  const file = openSync(path, 'r')
  const buffer = Buffer.alloc(1_000_000)
  const { sightings, take } = createBook(backend)
  let rest = ''
  return () => {
    for (;;) {
      const bytes = readSync(file, buffer)
      if (bytes === 0) return sightings
      const lines = (rest + buffer.toString('latin1', 0, bytes)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) take(JSON.parse(line) as Line)
    }
  }
}
