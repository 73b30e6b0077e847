/** The quota with one rule broken, each in a way that a change of the code may well bring about: read from mutants.txt. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Replacement } from './copies.ts'
import type { PropertyName } from './properties.ts'

export interface Mutant extends Replacement {
  /** Shows it: a property, or a small world by its title. */
  readonly breaks: PropertyName | { readonly world: string }
  /** npm test hunts it too. */
  readonly isSampled: boolean
}

const line = /^(\* )?(.+) \((\S+)\)\n- (.*)\n\+ ?(.*)$/gm
const plain = (text: string): string => text.replaceAll('\\n', '\n')

const WORLD = 'small world: '
const text = readFileSync(join(import.meta.dirname, 'mutants.txt'), 'utf8')

export const mutants: readonly Mutant[] = text
  .split('\n== ')
  .slice(1)
  .flatMap((section) => {
    const where = section.slice(0, section.indexOf('\n'))
    const isWorld = where.startsWith(WORLD)
    const breaks = isWorld ? { world: where.slice(WORLD.length) } : (where as PropertyName)
    return Array.from(
      section.matchAll(line),
      ([, star, name = '', file = '', from = '', to = '']): Mutant => {
        return {
          name,
          file,
          from: plain(from),
          to: plain(to),
          isSampled: star !== undefined,
          breaks,
        }
      },
    )
  })
