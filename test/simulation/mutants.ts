/** The quota with one rule broken, each in a way that a change of the code may well bring about: read from mutants.txt. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Replacement } from './copies.ts'
import type { PropertyName } from './properties.ts'

interface Sampled extends Replacement {
  /** npm test hunts it too. */
  readonly isSampled: boolean
}
export interface Mutant extends Sampled {
  /** Shows it: a property, or a small world by its title. */
  readonly breaks: PropertyName | { readonly world: string }
}

const line = /^(\* )?(.+) \((\S+)\)\n- (.*)\n\+ ?(.*)$/gm
const plain = (text: string): string => text.replaceAll('\\n', '\n')
const read = (section: string): Sampled[] =>
  Array.from(section.matchAll(line), ([, star, name = '', file = '', from = '', to = '']) => {
    return { name, file, from: plain(from), to: plain(to), isSampled: star !== undefined }
  })

const WORLD = 'small world: '
const text = readFileSync(join(import.meta.dirname, 'mutants.txt'), 'utf8')
const sections = text.split('\n== ').slice(1)
const shownBy = (section: string): string => section.slice(0, section.indexOf('\n'))

export const mutants: readonly Mutant[] = sections.flatMap((section) => {
  const where = shownBy(section)
  if (where === 'script') return []
  const isWorld = where.startsWith(WORLD)
  const breaks = isWorld ? { world: where.slice(WORLD.length) } : (where as PropertyName)
  return read(section).map((sampled) => ({ ...sampled, breaks }))
})
/** The same in the script that Redis runs. */
export const scriptMutants = sections.filter((one) => shownBy(one) === 'script').flatMap(read)
