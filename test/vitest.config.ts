import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What takes longest, so that nothing waits for it alone at the end. */
const longest = /process\/(lease-proof|backends|bans)|chaos\/chaos|workers\/roll/

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const rank = ({ project, moduleId }: TestSpecification): number =>
      2 * project.config.sequence.groupOrder + (longest.test(moduleId) ? 0 : 1)
    return sorted.sort((one, other) => rank(one) - rank(other))
  }
}

/** Files that keep a core busy, and the run of faults; all others mostly wait: for time-outs, bans, ends of minutes, failovers. */
const busy = [
  'test/chaos/chaos.test.ts',
  'test/{fuzz,simulation}/*.test.ts',
  'test/process/{backends,cli,demo,dist,floods,lifetime,outage}.test.ts',
  'test/process/{shared-quota,signals,slow-store,slowhttptest,store-file}.test.ts',
  'test/quota/lessee-{embedded,remote}.test.ts',
  'test/workers/{roll,serving}.test.ts',
]

/** One group of files after the other. On two cores, more workers would only make time-sensitive tests wait for each other. */
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
      group('waiting', 0, { maxWorkers: 3, include: ['test/**/*.test.ts'], exclude: busy }),
      group('busy', 1, { maxWorkers: 2, include: busy }),
    ],
    sequence: { sequencer: LongestFirst },
    setupFiles: ['test/support/one-day.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // What is waited for may take its time on a busy machine.
    expect: { poll: { timeout: 20_000 } },
    pool: 'forks',
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary', 'html'] },
  },
})
