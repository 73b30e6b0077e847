/**
 * The quota with one rule broken, each in a way that a change of the code may well bring about: read from mutants.txt, and hunted
 * with the schedules that show it.
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { temporaryFolder } from '../support/processes.ts'
import { Violation } from './ledger.ts'
import { properties, type Property, type PropertyName } from './properties.ts'
import type { Quota } from './shipped.ts'

export interface Mutant {
  readonly name: string
  /** In src. */
  readonly file: string
  readonly from: string
  readonly to: string
  /** The property that shows it. */
  readonly breaks: PropertyName
  /** npm test hunts it too. */
  readonly isSampled: boolean
}

const line = /^(\* )?(.+) \((\S+)\)\n- (.*)\n\+ ?(.*)$/gm
const plain = (text: string): string => text.replaceAll('\\n', '\n')

export const mutants: readonly Mutant[] = readFileSync(
  join(import.meta.dirname, 'mutants.txt'),
  'utf8',
)
  .split('\n== ')
  .slice(1)
  .flatMap((section) => {
    const breaks = section.slice(0, section.indexOf('\n')) as PropertyName
    return Array.from(
      section.matchAll(line),
      ([, star, name = '', file = '', from = '', to = '']): Mutant => {
        const isSampled = star !== undefined
        return { name, file, from: plain(from), to: plain(to), isSampled, breaks }
      },
    )
  })

const project = join(import.meta.dirname, '../..')
const shipped = 'test/simulation/shipped.ts'
const rooms = ['core/quota', 'core/rules', 'state', 'config'].map((room) => `src/${room}`)

/** The sources of the quota in a temporary folder, loaded by Node itself: as they are, or with one rule broken. */
export function loaded(mutant?: Mutant): Quota {
  const root = temporaryFolder()
  for (const path of [...rooms, shipped])
    cpSync(join(project, path), join(root, path), { recursive: true })
  writeFileSync(join(root, 'package.json'), '{"type":"module"}')
  if (mutant !== undefined) {
    writeFileSync(join(root, 'src', mutant.file), mutated(mutant))
  }
  const load = createRequire(import.meta.url)
  return (load(join(root, shipped)) as { shipped: Quota }).shipped
}

/** The text of its file, with the rule broken. */
export function mutated({ name, file, from, to }: Mutant): string {
  const parts = readFileSync(join(project, 'src', file), 'utf8').split(from)
  if (parts.length !== 2)
    throw new Error(
      `the mutant "${name}" must be brought up to date: src/${file} has this text ${parts.length - 1} times, not once: ${from}`,
    )
  return parts.join(to)
}

const SEED = 20_260_101
/** So many schedules of each property as its mutants need, and some more; where they are rare, from a seed that has them early. */
export const drawnFrom: Record<PropertyName, { readonly numRuns: number; readonly seed?: number }> =
  {
    faults: { numRuns: 34, seed: 14 },
    crashes: { numRuns: 10, seed: 89 },
    late: { numRuns: 20, seed: 3 },
    'late workers': { numRuns: 10, seed: 15 },
    resets: { numRuns: 24 },
    'changed limits': { numRuns: 60, seed: 8 },
    'one process': { numRuns: 10, seed: 11 },
    'load above the limit': { numRuns: 8 },
    storms: { numRuns: 26 },
    outages: { numRuns: 15 },
    'store lost': { numRuns: 34, seed: 2 },
    'data loss': { numRuns: 33 },
    remaining: { numRuns: 12, seed: 9 },
    workers: { numRuns: 38, seed: 7 },
    'worker resets': { numRuns: 15 },
  }

export interface Caught {
  readonly invariant: string
  readonly where: PropertyName
  /** So many schedules. */
  readonly after: number
}

/** Plays the schedules until one breaks an invariant. */
export async function hunt(
  quota: Quota,
  names: readonly PropertyName[],
): Promise<Caught | undefined> {
  let schedules = 0
  for (const name of names) {
    const { schedule, run } = properties[name] as Property<unknown>
    for (const drawn of fc.sample(schedule, { seed: SEED, ...drawnFrom[name] })) {
      schedules += 1
      try {
        await run(quota, drawn)
      } catch (error) {
        if (!(error instanceof Violation)) throw error
        return { invariant: error.invariant, where: name, after: schedules }
      }
    }
  }
  return undefined
}

export const found = (mutant: Mutant): Promise<Caught | undefined> =>
  hunt(loaded(mutant), [mutant.breaks])
