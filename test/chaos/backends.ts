/** Backends as processes of their own on ports that they keep, and what they have written down. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { atEnd } from '../support/ending.ts'
import { endOf, freePort } from '../support/redis-server.ts'
import { temporaryFile } from '../support/processes.ts'
import type { Line, Mood } from './backend.ts'
import type { Sighting } from './events.ts'

export type ChaosBackend = Awaited<ReturnType<typeof startBackend>>

export async function startBackend(name: string) {
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
    be: (mood: Mood) => void child.send(mood),
    /** SIGSTOP: connections stay open, nothing is answered. */
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    kill,
    restart: async (): Promise<void> => {
      child = await launch()
    },
    sightings: () => readBook(name, book),
  }
}

function readBook(backend: string, path: string): readonly Sighting[] {
  const sightings: Sighting[] = []
  // A retry may bring a number here once more: a body belongs to the last head of its number.
  const latest = new Map<number, Sighting>()
  for (const text of readFileSync(path, 'latin1').split('\n')) {
    if (text === '') continue
    const line = JSON.parse(text) as Line
    if ('read' in line) Object.assign(latest.get(line.read) ?? {}, { body: line.body })
    else {
      const { saw: number, method, client, atMs } = line
      const sighting: Sighting = { number, backend, method, client, atMs, body: undefined }
      sightings.push(sighting)
      latest.set(number, sighting)
    }
  }
  return sightings
}
