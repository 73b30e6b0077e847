import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * What takes longest, in the order in which it begins, so that nothing waits for it alone at the end. Beside the proof of
 * leases, which offers a thousand requests a second, runs first what does no more than wait.
 */
const longest = [
  'conformance/conformance',
  'process/lease-proof',
  'workers/clients',
  'simulation/mutants',
  'process/page',
  'simulation/exploration',
  'process/oldest-node',
  'process/explain',
  'process/reload',
  'process/bans',
  'process/back-off-clients',
  'redis/sentinel',
  'quota/lessee-redis',
  'redis/cluster',
  'quota/lessee-refusals',
  'wire/slow-clients',
  'wire/h2-attacks',
  'bans/back-off',
  'process/redis-topologies',
  'process/refused-store',
  'workers/crashes',
  'process/dist',
  'process/rolling-restart',
  'process/changed-limits',
  'workers/roll',
  'simulation/quota',
  'process/demo',
  'process/shared-quota',
  'process/store-file',
  'process/lifetime',
  'workers/serving',
  'wire/charges',
  'chaos/chaos',
  'process/outage',
  'process/backends',
].map((name) => `/test/${name}.test.ts`)

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const rank = ({ project, moduleId }: TestSpecification): number => {
      const at = longest.findIndex((name) => moduleId.endsWith(name))
      const { groupOrder } = project.config.sequence
      return groupOrder * 1_000 + (at === -1 ? longest.length : at)
    }
    return sorted.sort((one, other) => rank(one) - rank(other))
  }
}

/**
 * Files that keep a core busy or measure how long an answer takes, and the run of faults; all others mostly wait: for time-outs, bans,
 * ends of minutes, failovers, processes. The simulation takes only the time of the processor that those leave.
 */
const busy = [
  'test/chaos/chaos.test.ts',
  'test/fuzz/*.test.ts',
  'test/process/{backends,floods,outage,slow-store}.test.ts',
  'test/quota/lessee-{embedded,remote}.test.ts',
]

/** One group of files after the other. On two cores, more workers would only make those of the second wait for each other; one of the first is mostly with the simulation. */
const group = (
  name: string,
  groupOrder: number,
  { maxWorkers, ...files }: { maxWorkers: number; include: string[]; exclude?: string[] },
): TestProjectInlineConfiguration => ({
  extends: true,
  test: { name, maxWorkers, sequence: { groupOrder }, ...files },
})

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    projects: [
      group('waiting', 0, { maxWorkers: 5, include: ['test/**/*.test.ts'], exclude: busy }),
      group('busy', 1, { maxWorkers: 2, include: busy }),
    ],
    sequence: { sequencer: LongestFirst },
    setupFiles: ['test/support/one-day.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // What is waited for may take its time on a busy machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    pool: 'forks',
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary', 'html'] },
  },
})
