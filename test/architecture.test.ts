/** Holds ARCHITECTURE.md and the rules of the house against the tree as it is. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { words } from './support/words.ts'

const root = join(import.meta.dirname, '..')
const files = globSync('src/**/*.ts', { cwd: root }).sort()
const text = (file: string): string => readFileSync(join(root, file), 'utf8')

/** Paths of the project (below src) and package names that a file imports. types, late: whether type-only imports count, and those at the place of use. */
function imports(
  file: string,
  { types, late = true }: { types: boolean; late?: boolean },
): string[] {
  const early = /^(?:import|export)\s+(type\s)?(?:[^'"]*?\sfrom\s+)?'([^']+)'/gms
  // What is loaded late is imported all the same.
  const atUse = /\b(?:import|require|require\.resolve|\))()\('([^']+)'\)/g
  return [...text(file).matchAll(early), ...(late ? text(file).matchAll(atUse) : [])]
    .filter(([, typeOnly]) => !typeOnly || types)
    .map(([, , from = '']) =>
      from.startsWith('.') ? relative(root, join(root, dirname(file), from)) : from,
    )
}
/** `FILE imports FILE` of all imports of these files that are not as they should be. */
const wrong = (
  of: readonly string[],
  types: boolean,
  isWrong: (from: string, file: string) => boolean,
): string[] =>
  of.flatMap((file) =>
    imports(file, { types })
      .filter((from) => from.startsWith('src/') && isWrong(from, file))
      .map((from) => `${file} imports ${from}`),
  )

const packageOf = (name: string): string => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? ''

describe('the architecture page', () => {
  it('fits one page', () => {
    expect(text('ARCHITECTURE.md').split('\n').length).toBeLessThanOrEqual(90)
  })

  it('names every wing and every room', () => {
    const page = text('ARCHITECTURE.md')
    const rooms = files
      .filter((file) => file.split('/').length > 3)
      .map((file) => file.split('/')[2])
    for (const name of [...wings, ...rooms]) expect(page, name).toContain(`\`${name}/`)
  })

  it('names no file that is not there', () => {
    const named = text('ARCHITECTURE.md').match(/(?<=`)[\w./-]+\.(?:ts|lua|json|yaml)(?=`)/g) ?? []
    const all = globSync('{src,test,docs,config}/**/*', { cwd: root }).map((file) => `/${file}`)
    expect(named.filter((name) => !all.some((file) => file.endsWith(`/${name}`)))).toEqual([])
    expect(named.length).toBeGreaterThan(50)
  })

  it('shows every stage there is', () => {
    const page = text('ARCHITECTURE.md')
    for (const file of files.filter((name) => name.startsWith('src/core/pipeline/')))
      expect(page, file).toContain(file.replace(/^.*\/|\.ts$/g, ''))
  })
})

/** Top to bottom: no file imports a wing above its own, not even a type. */
const wings = words('cli tools server admin insight core state config')
const wingOf = (file: string): string => /^src\/([^/]+)\//.exec(file)?.[1] ?? ''
/** Such as core/rules. */
const roomOf = (file: string): string => /^src\/([^/]+(?:\/[^/]+)?)\//.exec(file)?.[1] ?? ''

/** How many lines of source each may have, in all languages, libraries aside: they go up only with a reason in the commit. */
const budgets: Readonly<Record<string, number>> = {
  cli: 3_975,
  tools: 4_450,
  server: 3_275,
  admin: 5_455,
  insight: 3_485,
  core: 13_480,
  state: 4_300,
  config: 4_150,
}

describe('the wings', () => {
  const sources = globSync('src/**/*.{ts,js,lua,css,html}', { cwd: root })

  it('are those of the page, and none grows', () => {
    const lines: Record<string, number> = {}
    for (const file of sources.filter((name) => !/\/vendor\/|^src\/main/.test(name)))
      lines[wingOf(file)] = (lines[wingOf(file)] ?? 0) + text(file).split('\n').length - 1
    expect(Object.keys(lines).sort()).toEqual(wings.toSorted())
    const over = Object.entries(lines).filter(([wing, count]) => count > (budgets[wing] ?? 0))
    expect(over).toEqual([])
  })

  it('import no wing above their own', () => {
    const all = files.filter((file) => !file.startsWith('src/main.ts'))
    const rank = (file: string): number => wings.indexOf(wingOf(file))
    expect(wrong(all, true, (from, file) => rank(from) < rank(file))).toEqual([])
  })

  it('reach no tool, no page and no terminal from what serves', () => {
    const reachable = reached('src/server/gateway/serving.ts')
    const foreign = [...reachable].filter((file) => /^src\/(?:cli|tools|admin)\//.test(file))
    expect(foreign).toEqual([])
  })

  it('compose in server and replay only: the others create nothing of another room', () => {
    const composing = files.flatMap((file) => {
      if (/^src\/(?:main|cli\/|server\/|tools\/replay\/)/.test(file)) return []
      return [...text(file).matchAll(/^import \{([^}]*)\} from '(\.[^']+)'/gms)]
        .filter(([, , from = '']) => {
          const room = roomOf(relative(root, join(root, dirname(file), from)))
          const isHome = wingOf(file) === 'state' && room.startsWith('state')
          return !isHome && ![roomOf(file), 'core/rules', 'config'].includes(room)
        })
        .flatMap(([, names = '', from]) =>
          (names.match(/(?<!type )\bcreate\w+/g) ?? []).map(
            (name) => `${file}: ${name} of ${from}`,
          ),
        )
    })
    expect(composing).toEqual([])
  })

  it('know nothing of the others in core/http, core/backends, tools/catalogue and config', () => {
    const generic = ['core/http', 'core/backends', 'tools/catalogue']
    const some = files.filter((file) => generic.includes(roomOf(file)))
    const allowed = ['core/rules', 'config', 'state']
    const isForeign = (from: string, file: string): boolean =>
      ![roomOf(file), ...allowed].includes(roomOf(from))
    expect(wrong(some, false, isForeign)).toEqual([])
    const config = files.filter((file) => wingOf(file) === 'config')
    expect(wrong(config, true, (from) => wingOf(from) !== 'config')).toEqual([])
  })
})

/** All files that this one loads, itself included. */
function reached(file: string, late = true, seen = new Set<string>()): Set<string> {
  if (seen.has(file) || !files.includes(file)) return seen
  seen.add(file)
  for (const from of imports(file, { types: false, late })) reached(from, late, seen)
  return seen
}

describe('the layout', () => {
  it('keeps every source file at 400 lines or fewer', () => {
    const long = files.filter((file) => text(file).split('\n').length > 401)
    expect(long).toEqual([])
  })

  it('keeps rules pure: they import rules, types, units of time, node:net and node:util only', () => {
    for (const file of files.filter((name) => name.startsWith('src/core/rules/'))) {
      const foreign = imports(file, { types: false }).filter(
        (from) => !/^src\/core\/rules\/|^src\/config\/time\.ts$|^node:(?:net|util)$/.test(from),
      )
      expect(foreign, file).toEqual([])
      expect(text(file).replace(/^\s*(\/\/|\/?\*).*$/gm, ''), file).not.toMatch(
        /Date\.now\(|performance\.now\(|Math\.random\(/,
      )
    }
  })

  it('lets the supervisor serve no requests, and a worker look after nobody', () => {
    const supervisor = reached('src/server/workers/supervisor.ts')
    expect(supervisor.size).toBeGreaterThan(20)
    for (const serving of ['gateway/serving.ts', 'gateway/front-door.ts', 'workers/worker.ts'])
      expect(supervisor, serving).not.toContain(`src/server/${serving}`)
    const worker = reached('src/server/workers/worker.ts')
    expect(worker).toContain('src/server/gateway/serving.ts')
    for (const other of ['src/server/workers/supervisor.ts', 'src/admin/server.ts'])
      expect(worker, other).not.toContain(other)
  })

  it('loads with a check or a start what that needs, and the rest where it is used', () => {
    for (const [file, foreign] of [
      ['src/cli/commands.ts', /\/(?:operator|server|state)\//],
      ['src/cli/check.ts', /\/(?:operator|admin|core|state)\//],
      ['src/cli/demo.ts', /\/operator\/|\/supervisor\.ts$/],
    ] as const)
      expect(
        [...reached(file, false)].filter((name) => foreign.test(name)),
        file,
      ).toEqual([])
  })

  it('starts child processes in two files: workers, and what speaks to systemd', () => {
    const starters = files.filter((file) =>
      imports(file, { types: false }).some((from) => /^node:(child_process|cluster)$/.test(from)),
    )
    expect(starters).toEqual(['src/cli/service-manager.ts', 'src/server/workers/worker-process.ts'])
  })

  it('imports each outside library in one file', () => {
    const importers = new Map<string, string[]>()
    // What browsers load is served by page-assets.ts, which names the libraries too.
    for (const file of files.filter((name) => !name.startsWith('src/admin/page/'))) {
      for (const from of imports(file, { types: false })) {
        if (from.startsWith('src/') || from.startsWith('node:')) continue
        importers.set(packageOf(from), [...(importers.get(packageOf(from)) ?? []), file])
      }
    }
    // zod is the language of the schema's parts.
    const several = [...importers].filter(
      ([name, where]) => new Set(where).size > 1 && name !== 'zod',
    )
    expect(several).toEqual([])
    const { dependencies } = JSON.parse(text('package.json')) as { dependencies: object }
    expect([...importers.keys()].sort()).toEqual(Object.keys(dependencies).sort())
  })

  it('reads arguments and environment at the process edge only', () => {
    for (const file of files.filter((name) => name !== 'src/main.ts')) {
      expect(text(file), file).not.toMatch(/process\.(env|argv|exit|on\()/)
    }
  })
})
