/** Draws conversations until so many requests have been played; the first that breaks a property is shrunk to what breaks it. */
import * as fc from 'fast-check'
import { conversations, type Conversation } from './client-grammar.ts'
import { clientKeys, startClientWorld } from './client-world.ts'
import { Explored, Violation, type Found } from './explored.ts'
import { shrink } from './shrink.ts'

/** Conversations at a time. */
const BATCH = 32

export async function fuzzClients({
  engine,
  requests,
  seed,
}: {
  readonly engine: string
  readonly requests: number
  readonly seed: number
}): Promise<{ explored: Explored; found: Found | undefined }> {
  const explored = new Explored()
  const world = await startClientWorld(engine)
  try {
    for (let round = 0; explored.count('requests') < requests; round++) {
      // fast-check would shrink a batch as a whole, which takes long, and play by play, which is not what went wrong.
      const batch = fc.sample(conversations(clientKeys), {
        seed: seed * 100_003 + round,
        numRuns: BATCH,
      })
      try {
        await world.play(batch, explored)
      } catch (error) {
        if (!(error instanceof Violation)) throw error
        return { explored, found: await shortest(engine, batch, error) }
      }
    }
    return { explored, found: undefined }
  } finally {
    await world.close()
  }
}

async function shortest(
  engine: string,
  batch: readonly Conversation[],
  violation: Violation,
): Promise<Found> {
  const suspects = violation.guilty === undefined ? batch : [violation.guilty]
  for (const { steps, ending } of suspects) {
    let what = ''
    const fails = async (shorter: Conversation['steps']): Promise<boolean> => {
      const found = await violationOf(engine, { steps: shorter, ending, mutations: [] })
      what = found ?? what
      return found !== undefined
    }
    if (await fails(steps)) return { steps: await shrink(steps, fails), ending, what }
  }
  const { steps, ending } = suspects[0] as Conversation
  return { what: `${violation.message}\n(once, and not again)`, steps, ending }
}

/** What goes wrong with this conversation, played in a world of its own. */
export async function violationOf(
  engine: string,
  conversation: Conversation,
): Promise<string | undefined> {
  const world = await startClientWorld(engine)
  try {
    // Many at once, since some things happen only to those who have to wait.
    for (let times = 0; times < 3; times++)
      await world.play(
        Array.from({ length: BATCH }, () => conversation),
        new Explored(),
      )
    return undefined
  } catch (error) {
    if (error instanceof Violation) return error.message
    throw error
  } finally {
    await world.close()
  }
}
