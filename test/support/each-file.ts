/** Runs in every test file. */
import { afterAll, beforeEach } from 'vitest'
import { endAll } from './ending.ts'
import { removeFolders } from './processes.ts'
import { dayWithAtLeast } from './utc-windows.ts'

/** No test runs over the end of a UTC day: what it has counted of the day would be gone. One that takes longer waits by itself. */
const longestMs = 120_000
beforeEach(() => dayWithAtLeast(longestMs), 2 * longestMs)

// The first hook that is registered is the last that runs: by then the file has ended what it ends by itself.
afterAll(async () => {
  await endAll()
  removeFolders()
})
