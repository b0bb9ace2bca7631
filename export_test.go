package eddy

// RaceDetector tells the external tests what they run under.
const RaceDetector = raceDetector
