/** The two sides of a gateway that may send it what they like: what is drawn for each, and what has to come of it to prove anything. */
import type * as fc from 'fast-check'
import { answerCases } from './answer-cases.ts'
import { scripts, type Script } from './answer-grammar.ts'
import { startAnswerWorld } from './answer-world.ts'
import { clientCases } from './client-cases.ts'
import { conversations, type Conversation } from './client-grammar.ts'
import { clientKeys, startClientWorld } from './client-world.ts'
import { fuzz, violationsOf, type Fuzzed, type Playable, type World } from './fuzzing.ts'

export interface Side<Played extends Playable = Playable> {
  /** What is counted. */
  readonly unit: 'requests' | 'answers'
  start(engine: string): Promise<World<Played>>
  readonly scripts: fc.Arbitrary<Played>
  /** What the fuzzer has found, by name. */
  readonly cases: Readonly<Record<string, Played>>
  /** It would prove little if hardly anything came through, or all did: at least such a part of the units each. */
  readonly shows: Readonly<Record<string, number>>
}

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
export const sides = { clients, backends } as unknown as Record<'clients' | 'backends', Side>

/** Plays so many, or all up to the first that breaks a property. */
export const play = (
  { start, scripts: drawn, unit }: Side,
  { engine, count, seed }: { engine: string; count: number; seed: number },
): Promise<Fuzzed> =>
  fuzz(() => start(engine), drawn, { seed, isEnough: (sofar) => sofar.count(unit) >= count })

/** What goes wrong with what was found once, by name. */
export const foundAgain = (
  { start, cases }: Side,
  engine: string,
  copies: number,
): Promise<Record<string, string>> => violationsOf(() => start(engine), cases, copies)
