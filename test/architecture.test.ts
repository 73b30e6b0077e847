/** Holds ARCHITECTURE.md and the rules of the house against the tree as it is. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { words } from './support/words.ts'

const root = join(import.meta.dirname, '..')
const files = globSync('src/**/*.ts', { cwd: root }).sort()
const text = (file: string): string => readFileSync(join(root, file), 'utf8')

/** Paths of the project (below src) and package names that a file imports; `types` says whether type-only imports count. */
function imports(file: string, { types }: { types: boolean }): string[] {
  const early = /^(?:import|export)\s+(type\s)?(?:[^'"]*?\sfrom\s+)?'([^']+)'/gms
  // What is loaded late is imported all the same.
  const late = /\b(?:import|require|\))()\('([^']+)'\)/g
  return [...text(file).matchAll(early), ...text(file).matchAll(late)]
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

  it('names every room', () => {
    const page = text('ARCHITECTURE.md')
    for (const room of rooms) expect(page, room).toContain(`\`${room}/\``)
  })

  it('shows every stage there is', () => {
    const page = text('ARCHITECTURE.md')
    for (const file of files.filter((name) => name.startsWith('src/pipeline/')))
      expect(page, file).toContain(file.replace(/^.*\/|\.ts$/g, ''))
  })
})

/** Top to bottom: no file imports a room above its own, not even a type. */
const rooms =
  words(`cli operator key-files conformance replay terminal log-files workers gateway explain
  pipeline admin notify live bans counters usage observability quota forwarding backends http1
  credentials redis sqlite ipc listeners api changes rules clients config catalogue`)
const roomOf = (file: string): string => /^src\/([^/]+)\//.exec(file)?.[1] ?? ''

describe('the rooms', () => {
  it('are those of the page, and hold at most 3,000 lines each', () => {
    const lines = new Map<string, number>()
    for (const file of files)
      lines.set(roomOf(file), (lines.get(roomOf(file)) ?? 0) + text(file).split('\n').length - 1)
    expect([...lines.keys()].filter((room) => room !== '').sort()).toEqual(rooms.toSorted())
    expect([...lines].filter(([, count]) => count > 3_000)).toEqual([])
  })

  it('import no room above their own', () => {
    const all = files.filter((file) => !file.startsWith('src/main.ts'))
    const rank = (file: string): number => rooms.indexOf(roomOf(file))
    expect(wrong(all, true, (from, file) => rank(from) < rank(file))).toEqual([])
  })

  it('compose in gateway, workers, replay and cli only: the others create nothing of another room', () => {
    const composing = files.flatMap((file) => {
      if (['', 'cli', 'workers', 'gateway', 'replay'].includes(roomOf(file))) return []
      return [...text(file).matchAll(/^import \{([^}]*)\} from '(\.[^']+)'/gms)]
        .filter(([, , from = '']) => {
          const room = roomOf(relative(root, join(root, dirname(file), from)))
          return ![roomOf(file), 'rules', 'config'].includes(room)
        })
        .flatMap(([, names = '', from]) =>
          (names.match(/(?<!type )\bcreate\w+/g) ?? []).map(
            (name) => `${file}: ${name} of ${from}`,
          ),
        )
    })
    expect(composing).toEqual([])
  })

  it('speak no quota, no bans and no requests in redis, sqlite, ipc, http1 and backends', () => {
    const rooms = ['redis', 'sqlite', 'ipc', 'http1', 'backends']
    const generic = files.filter((file) => rooms.includes(roomOf(file)))
    const isForeign = (from: string, file: string): boolean =>
      ![roomOf(file), 'rules'].includes(roomOf(from))
    expect(wrong(generic, false, isForeign)).toEqual([])
  })

  it('know nothing of the others in config and catalogue', () => {
    const own = files.filter((file) => ['config', 'catalogue'].includes(roomOf(file)))
    expect(wrong(own, true, (from, file) => roomOf(from) !== roomOf(file))).toEqual([])
  })
})

describe('the layout', () => {
  it('keeps every source file at 400 lines or fewer', () => {
    const long = files.filter((file) => text(file).split('\n').length > 401)
    expect(long).toEqual([])
  })

  it('keeps rules pure: they import rules, types, node:net and node:util only', () => {
    for (const file of files.filter((name) => name.startsWith('src/rules/'))) {
      const foreign = imports(file, { types: false }).filter(
        (from) => !from.startsWith('src/rules/') && !/^node:(?:net|util)$/.test(from),
      )
      expect(foreign, file).toEqual([])
      expect(text(file).replace(/^\s*(\/\/|\/?\*).*$/gm, ''), file).not.toMatch(
        /Date\.now\(|performance\.now\(|Math\.random\(/,
      )
    }
  })

  it('lets the supervisor serve no requests, and a worker look after nobody', () => {
    const reached = (file: string, seen = new Set<string>()): Set<string> => {
      if (seen.has(file) || !files.includes(file)) return seen
      seen.add(file)
      for (const from of imports(file, { types: false })) reached(from, seen)
      return seen
    }
    const supervisor = reached('src/workers/supervisor.ts')
    expect(supervisor.size).toBeGreaterThan(20)
    for (const serving of ['gateway/serving.ts', 'gateway/front-door.ts', 'workers/worker.ts'])
      expect(supervisor, serving).not.toContain(`src/${serving}`)
    const worker = reached('src/workers/worker.ts')
    expect(worker).toContain('src/gateway/serving.ts')
    for (const other of ['src/workers/worker-pool.ts', 'src/admin/server.ts'])
      expect(worker, other).not.toContain(other)
  })

  it('starts child processes in two files: workers, and what speaks to systemd', () => {
    const starters = files.filter((file) =>
      imports(file, { types: false }).some((from) => /^node:(child_process|cluster)$/.test(from)),
    )
    expect(starters).toEqual(['src/cli/service-manager.ts', 'src/workers/worker-process.ts'])
  })

  it('imports each outside library in one file', () => {
    const importers = new Map<string, string[]>()
    for (const file of files) {
      for (const from of imports(file, { types: false })) {
        if (from.startsWith('src/') || from.startsWith('node:')) continue
        importers.set(packageOf(from), [...(importers.get(packageOf(from)) ?? []), file])
      }
    }
    // http-proxy-3 is one engine with two doors: requests and upgrades. zod is the language of the schema's parts.
    const several = [...importers].filter(
      ([name, where]) => where.length > 1 && name !== 'http-proxy-3' && name !== 'zod',
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
