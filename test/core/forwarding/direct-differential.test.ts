/** A sample of what the proof of the same name compares. */
import { compareEngines } from './differential.ts'

compareEngines({ sound: 8, hostile: 15, next: 4, requests: 40 }, 20_261_123)
