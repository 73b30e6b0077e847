/** Wording of times, bans and processes in explanations. */
import { clock, count, duration } from '../format.js'
import { LONGEST_WAIT_MS } from '../../core/pipeline/take-turn.ts'
import { endsAtSeconds } from '../../core/rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { CallerStanding } from './question.ts'

export const isoOf = (ms: number): string => new Date(ms).toISOString()

/** The date alone for midnight UTC, otherwise as clock writes it. */
export const dateOf = (ms: number, nowMs: number): string =>
  ms % 86_400_000 === 0 ? isoOf(ms).slice(0, 10) : clock(ms, nowMs)

const ends = ['th', 'st', 'nd', 'rd']
/** 1st, 2,012th */
export function ordinal(number: number): string {
  const isTeen = number % 100 > 10 && number % 100 < 14
  return `${count(number)}${(!isTeen && ends[number % 10]) || 'th'}`
}

/** times: number of the ban, as in "5th ban"; 0: not known. */
const banOf = (times: number): string => (times === 0 ? 'ban for strikes' : `${ordinal(times)} ban`)

export function banInWords(ban: BanRecord, atMs: number) {
  const { untilMs, startedMs, by, count: times, reason } = ban
  const whose = by === 'operator' ? 'by an operator' : banOf(times)
  const why = reason === undefined ? '' : `; ${reason}`
  return `until ${clock(1000 * endsAtSeconds(ban), atMs)}, ${whose}, ${duration(untilMs - startedMs)}${why}`
}

export const placeOf = ({ worker }: CallerStanding): string =>
  worker === undefined ? 'here' : `in worker ${worker}`

/** isFull: no process has a turn left. */
export function takenBy(standings: readonly CallerStanding[] | undefined, isFull: boolean) {
  if (standings === undefined)
    return { rule: '; how many are under way is not known', numbers: { taken: null } }
  const each = standings.map((one) => `${count(one.taken)} ${placeOf(one)}`)
  const wait = isFull ? `, and none ends within ${LONGEST_WAIT_MS} ms` : ''
  const numbers = standings.map(({ worker, taken }) => [
    worker === undefined ? 'taken' : `takenOfWorker${worker}`,
    taken,
  ])
  return { rule: `; ${each.join(', ')}${wait}`, numbers: Object.fromEntries(numbers) }
}
