/** The sides of a gateway that may send it what they like: what is drawn for each, and what has to come of it to prove anything. */
import { scripts, type Script } from './answer-grammar.ts'
import { startAnswerWorld } from './answer-world.ts'
import { answerCases, clientCases } from './cases.ts'
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
  scripts,
  cases: answerCases,
  shows: { 'heard 200': 1 / 50, 'heard 502': 1 / 50, 'heard cut off': 1 / 50, judged: 4 / 5 },
}
export const sides = { clients, backends } as unknown as Record<'clients' | 'backends', Side>
