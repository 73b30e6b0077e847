/** A process that does one thing when told to, and says what came of it: attackers and their victims share no event loop. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { AttackOrder, AttackOutcome, ClientOrder, ClientOutcome } from './orders.ts'

interface Children {
  'attack.ts': [AttackOrder, AttackOutcome]
  'client.ts': [ClientOrder, ClientOutcome]
}

const live = new Set<ChildProcess>()

/** Resolves once the process is up, so that all can be told to begin at the same moment. */
export async function child<File extends keyof Children>(file: File) {
  type Order = Children[File][0]
  type Outcome = Children[File][1]
  const process = fork(join(import.meta.dirname, file), { execArgv: [] })
  live.add(process)
  process.once('exit', () => live.delete(process))
  await once(process, 'message')
  return async (order: Order): Promise<Outcome> => {
    process.send(order)
    const [outcome] = (await Promise.race([once(process, 'message'), ended(process, file)])) as [
      Outcome,
    ]
    process.disconnect()
    return outcome
  }
}

/** Called in the process itself. */
export function obey<File extends keyof Children>(
  work: (order: Children[File][0]) => Promise<Children[File][1]>,
): void {
  process.once('disconnect', () => process.exit(0))
  process.once('message', (order) => {
    void work(order as Children[File][0]).then((outcome) => process.send?.(outcome))
  })
  process.send?.('ready')
}

export function endChildren(): void {
  for (const process of live) process.kill('SIGKILL')
}

async function ended(process: ChildProcess, file: string): Promise<never> {
  await once(process, 'exit')
  throw new Error(`${file} ended without an outcome`)
}
