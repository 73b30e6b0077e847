/** What is called at a steady pace, and what Redis has counted of it. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Sends so many times a second until stopped, whatever the answers do. The result stops it. */
export function atPace(perSecond: number, send: () => void): () => void {
  const startedMs = performance.now()
  let sent = 0
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - startedMs) / 1000) * perSecond)
    for (; sent < due; sent++) send()
  }, 5)
  return () => clearInterval(timer)
}

const command = promisify(execFile)

export type CountersInRedis = Awaited<ReturnType<typeof countersInRedis>>

/** Reads a client's hash without holding up this process: the totals of its windows. */
export async function countersInRedis(port: number, key: string) {
  const { stdout } = await command('redis-cli', ['-p', String(port), 'HGETALL', key])
  const lines = stdout.trim().split('\n')
  const hash = new Map(lines.flatMap((name, at) => (at % 2 === 0 ? [[name, lines[at + 1]]] : [])))
  const number = (name: string): number => Number(hash.get(name) ?? 0)
  return {
    minuteTaken: number('minuteTaken'),
    dayTaken: number('dayTaken'),
    dayUsed: number('dayUsed'),
  }
}
