/** No test runs over the end of a UTC day: what it has counted of the day would be gone. One that takes longer waits by itself. */
import { beforeEach } from 'vitest'
import { dayWithAtLeast } from './utc-windows.ts'

const longestMs = 120_000
beforeEach(() => dayWithAtLeast(longestMs), 2 * longestMs)
