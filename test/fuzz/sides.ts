/** The sides of a gateway that may send it what they like: what is drawn for each, and what has to come of it to prove anything. */
import { answerCases } from './answer-cases.ts'
import { scripts, type Script } from './answer-grammar.ts'
import { startAnswerWorld } from './answer-world.ts'
import { clientCases } from './client-cases.ts'
import { conversations, type Conversation } from './client-grammar.ts'
import { clientKeys, startClientWorld } from './client-world.ts'
import type { Side } from './fuzzing.ts'

const clients: Side<Conversation> = {
  unit: 'requests',
  start: startClientWorld,
  scripts: conversations(clientKeys),
  cases: clientCases,
  shows: { 'answer 200': 1 / 10, 'answer 400': 1 / 50, 'answer 401': 1 / 50 },
}
const backends: Side<Script> = {
  unit: 'answers',
  start: startAnswerWorld,
  scripts: scripts({ stalls: false }),
  cases: answerCases,
  shows: { 'heard 200': 1 / 50, 'heard 502': 1 / 50, 'heard cut off': 1 / 50, judged: 4 / 5 },
}
/** In the midst of an answer they stop. */
const stalling: Side<Script> = {
  unit: 'answers',
  start: (engine) => startAnswerWorld(engine, { stalls: true }),
  scripts: scripts({ stalls: true }),
  cases: {},
  shows: {},
}
export const sides = { clients, backends, 'stalling backends': stalling } as unknown as Record<
  'clients' | 'backends' | 'stalling backends',
  Side
>
